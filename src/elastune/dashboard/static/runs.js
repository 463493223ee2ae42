"use strict";
(function () {
  const { el, fill, read, duration, usd, number, badge, table } = elastune;
  const columns = [
    { title: "run", value: (row) => row.run, words: true, show: (row) => el("a", { href: `/runs/${row.run}` }, row.run) },
    { title: "name", value: (row) => row.name, words: true },
    { title: "policy", value: (row) => row.policy, words: true },
    { title: "state", value: (row) => row.state, words: true, show: (row) => badge(row.state) },
    { title: "started", value: (row) => row.created_utc, words: true, show: (row) => new Date(row.created_utc).toLocaleString() },
    { title: "time", value: (row) => row.seconds, show: (row) => duration(row.seconds) },
    { title: "cost", value: (row) => row.cost, show: (row) => row.cost === null ? "" : usd(row.cost) },
    { title: "best", value: (row) => row.best, show: (row) => number(row.best) },
    { title: "kind", value: (row) => row.body, words: true, show: (row) => row.body === "ray" ? "real" : `simulated${row.faults && row.faults !== "none" ? ", " + row.faults : ""}` },
  ];
  let list = null, chosen = new Set();
  const compare = el("a", { class: "button", href: "/compare" }, "Compare");
  columns.unshift({ title: "", value: () => "", show: (row) => el("input", { type: "checkbox", "aria-label": `compare ${row.run}`, checked: chosen.has(row.run),
    onclick: (event) => { event.stopPropagation(); if (event.target.checked) chosen.add(row.run); else chosen.delete(row.run);
      compare.href = `/compare?runs=${[...chosen].join(",")}`; compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare"; } }) });
  document.getElementById("search").after(compare);
  document.getElementById("search").addEventListener("input", (event) => list && list.search(event.target.value));
  async function load() {
    try {
      const found = await read("/api/runs");
      if (!list) {
        list = table(columns, found.runs, { row: (row) => { location.href = `/runs/${row.run}`; } });
        const empty = el("p", { class: "muted" }, `There are no runs under ${found.root} yet. `, el("a", { href: "/ask" }, "Ask for a quote"), " or start one with elastune run.");
        fill("runs", found.runs.length ? list : empty,
          found.broken.length ? el("details", { class: "trouble" }, el("summary", {}, `${found.broken.length} folders cannot be read`), found.broken.map((each) => el("p", {}, `${each.folder}: ${each.reason}`))) : null);
      } else list.update(found.runs);
    } catch (error) { fill("runs", elastune.trouble(error)); }
  }
  load();
  setInterval(load, 5000);
})();
