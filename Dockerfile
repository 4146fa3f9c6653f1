# The agent's image: built and run on Debian 13, as an unprivileged user, with a few hundred KiB of libraries.

FROM debian:trixie-slim AS tools
ENV DEBIAN_FRONTEND=noninteractive
# Sources too: libmicrohttpd is built from Debian's, see below.
RUN sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources \
 && apt-get update -q \
 && apt-get install -yq --no-install-recommends build-essential meson pkg-config \
        libhiredis-dev libjansson-dev libuv1-dev libyaml-dev

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
 && install -Dm644 debian/copyright /microhttpd/usr/share/doc/libmicrohttpd12t64/copyright

FROM tools AS build
COPY --from=microhttpd /microhttpd /
COPY . /src
WORKDIR /src
RUN meson setup /build --prefix=/usr --buildtype=release --strip -Dtests=false && meson install -C /build --destdir /install
# What the runtime image gets on top of the packages that it installs itself.
RUN cd / && install -D /install/usr/bin/lockagent /image/usr/bin/lockagent \
 && install -Dm644 /src/config/minimal.yaml /image/etc/lockagent/lockagent.yaml \
 && cp -a --parents usr/lib/*/libmicrohttpd.so.* usr/share/doc/libmicrohttpd12t64 /image

FROM debian:trixie-slim
RUN export DEBIAN_FRONTEND=noninteractive && apt-get update -q \
 && apt-get install -yq --no-install-recommends libhiredis1.1.0 libjansson4 libuv1t64 libyaml-0-2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/lib/dpkg/*-old /var/log/*.log /var/log/apt
COPY --from=build /image /
USER 65532:65532
# The admin listener, where the configuration has one; the API belongs on loopback.
EXPOSE 9090
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["lockagent", "healthcheck"]
ENTRYPOINT ["lockagent"]
CMD ["serve", "--config", "/etc/lockagent/lockagent.yaml"]
