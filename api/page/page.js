"use strict";
// Keeps the page up to date: the same page is fetched again, and what differs is changed in place,
// so that nothing flickers and focus, selection and scrolling stay where they are.
{
  const EVERY_MS = 2000, PATIENCE_MS = 5000, TYPING_MS = 200;
  const at = (id) => document.getElementById(id);
  let fetchedAt = performance.now(), paused = false, timer, typing, under_way;

  // Makes `old` like `fresh`, which is a node of the same name.
  const match = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const length = fresh.childNodes.length; // Nodes that are taken over leave it.
    [...fresh.childNodes].forEach((node, i) => {
      // A part that has moved is moved here, and not written anew.
      const moved = node.id && [...old.children].find((each) => each.id === node.id);
      if (moved && moved !== old.childNodes[i]) old.insertBefore(moved, old.childNodes[i]);
      const there = old.childNodes[i];
      if (there && there.nodeName === node.nodeName) match(there, node);
      else old.insertBefore(node, there || null);
    });
    while (old.childNodes.length > length) old.lastChild.remove();
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const focused = document.activeElement;
    const around = focused.closest("section");
    for (const old of document.querySelectorAll(".live")) match(old, fresh.getElementById(old.id));
    at("icon").href = fresh.getElementById("icon").href;
    document.title = fresh.title;
    // An element that was moved has lost focus. One that is gone leaves it to its section's table.
    const keeper = focused.isConnected ? focused : around && around.querySelector(".wide");
    if (keeper && document.activeElement !== keeper) keeper.focus({ preventScroll: true });
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
  // Puts what is asked for in the address. `limit`: rows of each table; "": as many as at first.
  const ask = (limit) => {
    const asked = new URLSearchParams();
    if (at("key").value) asked.set("key", at("key").value);
    if (at("sort").selectedIndex > 0) asked.set("sort", at("sort").value);
    if (limit) asked.set("limit", limit);
    history.replaceState(null, "", `${asked}` ? `?${asked}` : location.pathname);
    refresh();
  };
  at("key").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(ask, TYPING_MS, "");
  });
  at("sort").addEventListener("change", () => ask(""));
  at("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    ask(event.submitter ? event.submitter.value : "");
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });
  setInterval(tellAge, 1000);
  at("pulse").hidden = false;
  tellAge();
  timer = setTimeout(refresh, EVERY_MS);
}
