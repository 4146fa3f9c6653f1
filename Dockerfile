# The agent's images, built on Debian 13, as an unprivileged user: on Debian, with a few hundred KiB of libraries, and
# with --target minimal the agent and its libraries alone. Both say what they are made of in
# /usr/share/doc/lockagent/sbom.spdx.json (SPDX).

FROM debian:trixie-slim AS tools
ENV DEBIAN_FRONTEND=noninteractive
# Sources too: libmicrohttpd is built from Debian's, see below.
RUN sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources \
 && apt-get update -q \
 && apt-get install -yq --no-install-recommends build-essential meson pkg-config \
        libhiredis-dev libjansson-dev libssl-dev libuv1-dev libyaml-dev

# libmicrohttpd from Debian's source package and with Debian's build flags, but without HTTPS. The agent serves plain HTTP on
# loopback; Debian's binary would bring GnuTLS and five libraries behind it, 6.3 MB that nothing here ever calls.
FROM tools AS microhttpd
WORKDIR /src
RUN apt-get source -q libmicrohttpd \
 && cd libmicrohttpd-*/ \
 && eval "$(dpkg-buildflags --export=sh)" \
 && ./configure --quiet --prefix=/usr --libdir="/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" --disable-static \
        --disable-https --disable-doc --disable-examples --disable-tools --disable-curl \
 && make -s -j"$(nproc)" install-strip DESTDIR=/microhttpd \
 && install -Dm644 debian/copyright /microhttpd/usr/share/doc/libmicrohttpd12t64/copyright \
 && dpkg-parsechangelog -S Version >/microhttpd/usr/share/doc/libmicrohttpd12t64/version

FROM tools AS build
COPY --from=microhttpd /microhttpd /
COPY . /src
WORKDIR /src
RUN meson setup /build --prefix=/usr --buildtype=release --strip -Dtests=false && meson install -C /build --destdir /install
# What the images get on top of Debian's packages.
RUN cd / && install -D /install/usr/bin/lockagent /image/usr/bin/lockagent \
 && install -Dm644 /src/config/minimal.yaml /image/etc/lockagent/lockagent.yaml \
 && install -Dm644 /src/LICENSE /image/usr/share/doc/lockagent/copyright \
 && cp -a --parents usr/lib/*/libmicrohttpd.so.* usr/share/doc/libmicrohttpd12t64 /image

FROM debian:trixie-slim AS runtime
RUN export DEBIAN_FRONTEND=noninteractive && apt-get update -q \
 && apt-get install -yq --no-install-recommends libhiredis1.1.0 libjansson4 libssl3t64 libuv1t64 libyaml-0-2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/lib/dpkg/*-old /var/log/*.log /var/log/apt

# The agent and the libraries that it loads, and nothing else: no shell, no packages, no accounts.
FROM runtime AS closure
COPY --from=build /image /
COPY deploy/image/closure.sh /
# The agent loads OpenSSL by itself if a master uses TLS.
RUN /closure.sh /usr/bin/lockagent /minimal libssl.so.3 libcrypto.so.3 && cp -a --parents -t /minimal /etc/lockagent /usr/share/doc/lockagent /usr/share/doc/libmicrohttpd12t64

# What the images are made of, as dpkg lists it. With a date (--build-arg SOURCE_DATE_EPOCH=..., that of the commit) the same
# packages make the same list.
FROM build AS sbom
ARG SOURCE_DATE_EPOCH
COPY --from=closure /var/lib/dpkg /runtime/dpkg
COPY --from=closure /minimal.packages /runtime/
RUN agent="$(/install/usr/bin/lockagent --version | cut -d ' ' -f 2)" microhttpd="$(cat /usr/share/doc/libmicrohttpd12t64/version)" \
 && name=usr/share/doc/lockagent/sbom.spdx.json \
 && deploy/image/sbom.py /runtime/dpkg "/sbom/image/$name" "$agent" "$microhttpd" \
 && deploy/image/sbom.py /runtime/dpkg "/sbom/minimal/$name" "$agent" "$microhttpd" /runtime/minimal.packages

# docker build --target minimal
FROM scratch AS minimal
COPY --from=closure /minimal /
COPY --from=sbom /sbom/minimal /
ENV PATH=/usr/bin:/bin
USER 65532:65532
# The admin listener, where the configuration has one; the API belongs on loopback.
EXPOSE 9090
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["lockagent", "healthcheck"]
ENTRYPOINT ["lockagent"]
CMD ["serve", "--config", "/etc/lockagent/lockagent.yaml"]
ARG REVISION=unknown
LABEL org.opencontainers.image.title="lockagent" \
      org.opencontainers.image.description="Distributed locks on independent Redis masters, over HTTP on localhost" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.revision="$REVISION"

FROM runtime
COPY --from=build /image /
COPY --from=sbom /sbom/image /
USER 65532:65532
# The admin listener, where the configuration has one; the API belongs on loopback.
EXPOSE 9090
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["lockagent", "healthcheck"]
ENTRYPOINT ["lockagent"]
CMD ["serve", "--config", "/etc/lockagent/lockagent.yaml"]
ARG REVISION=unknown
LABEL org.opencontainers.image.title="lockagent" \
      org.opencontainers.image.description="Distributed locks on independent Redis masters, over HTTP on localhost" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="debian:trixie-slim"
