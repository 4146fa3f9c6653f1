"use strict";
// Keeps the page up to date: the same page is fetched again, and what differs is changed in place,
// so that nothing flickers and focus, selection and scrolling stay where they are.
{
  const EVERY_MS = 2000, PATIENCE_MS = 5000, TYPING_MS = 200;
  const at = (id) => document.getElementById(id);
  let fetchedAt = performance.now(), paused = false, timer, typing, under_way;

  // Makes `old` like `fresh`.
  const match = (old, fresh) => {
    if (old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const before = [...old.childNodes], after = [...fresh.childNodes];
    before.slice(after.length).forEach((node) => node.remove());
    after.forEach((node, i) => (i < before.length ? match(before[i], node) : old.append(node)));
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll(".live")) match(old, fresh.getElementById(old.id));
    at("icon").href = fresh.getElementById("icon").href;
    document.title = fresh.title;
  };

  const tellAge = () => {
    const age = Math.floor((performance.now() - fetchedAt) / 1000);
    const silent = !paused && !document.hidden && performance.now() - fetchedAt > PATIENCE_MS;
    const alarm = silent ? "The agent does not answer: this page is old." : "";
    at("age").textContent = `${age} s old`;
    if (at("silent").textContent !== alarm) at("silent").textContent = alarm;
    document.body.classList.toggle("old", silent);
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (under_way) under_way.abort();
    const mine = (under_way = new AbortController());
    const late = setTimeout(() => mine.abort(), PATIENCE_MS);
    try {
      const answer = await fetch(location.href, { signal: mine.signal, cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (mine !== under_way) return;
      show(text);
      fetchedAt = performance.now();
    } catch {
      // The age tells of it.
    } finally {
      clearTimeout(late);
    }
    if (mine !== under_way) return;
    tellAge();
    if (!paused && !document.hidden) timer = setTimeout(refresh, EVERY_MS);
  };

  at("pause").addEventListener("click", () => {
    paused = !paused;
    at("pause").textContent = paused ? "Go on" : "Pause";
    if (paused) clearTimeout(timer);
    else refresh();
  });
  at("key").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const key = at("key").value;
      history.replaceState(null, "", key ? "?key=" + encodeURIComponent(key) : location.pathname);
      refresh();
    }, TYPING_MS);
  });
  at("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    at("key").dispatchEvent(new Event("input"));
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });
  setInterval(tellAge, 1000);
  at("pulse").hidden = false;
  tellAge();
  timer = setTimeout(refresh, EVERY_MS);
}
