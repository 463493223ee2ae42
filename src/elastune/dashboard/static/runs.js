"use strict";
(function () {
  const { el, fill, read, duration, usd, number, badge, table } = elastune;
  const when = (utc) => {
    const at = new Date(utc), isToday = at.toDateString() === new Date().toDateString(), clock = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
    return el("time", { datetime: utc, title: at.toLocaleString() }, isToday ? `today ${clock}` : `${at.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })} ${clock}`);
  };
  const kind = (row) => row.body === "ray" ? "real" : `simulated${row.faults && row.faults !== "none" ? ", " + row.faults : ""}`;
  const columns = [
    { title: "run", value: (row) => row.run, words: true, show: (row) => el("a", { href: `/runs/${row.run}` }, row.run) },
    { title: "name", value: (row) => row.name, words: true },
    { title: "policy", value: (row) => row.policy, words: true },
    { title: "state", value: (row) => row.state, words: true, show: (row) => badge(row.state) },
    { title: "started", value: (row) => row.created_utc, words: true, show: (row) => when(row.created_utc) },
    { title: "time", value: (row) => row.seconds, show: (row) => duration(row.seconds) },
    { title: "cost", value: (row) => row.cost, show: (row) => row.cost === null ? "" : usd(row.cost) },
    { title: "best", value: (row) => row.best, show: (row) => number(row.best) },
    { title: "kind", value: (row) => row.body, words: true, show: (row) => el("span", { class: "short", title: kind(row) }, kind(row)) },
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
        list = table(columns, found.runs, { stacks: true, row: (row) => { location.href = `/runs/${row.run}`; } });
        const empty = el("p", { class: "muted" }, `There are no runs under ${found.root} yet. `, el("a", { href: "/ask" }, "Ask for a quote"), " or start one with elastune run.");
        fill("runs", found.runs.length ? list : empty,
          found.broken.length ? el("details", { class: "trouble" }, el("summary", {}, `${elastune.plural(found.broken.length, "folder")} cannot be read`), found.broken.map((each) => el("p", {}, `${each.folder}: ${each.reason}`))) : null);
      } else list.update(found.runs);
      const running = found.runs.filter((run) => run.state === "running").length, spent = found.runs.reduce((sum, run) => sum + (run.body === "ray" && run.cost || 0), 0);
      fill("summary", found.runs.length ? [elastune.plural(found.runs.length, "run"), running ? `${running} running` : null, spent ? `${usd(spent)} spent on real ones` : null].filter(Boolean).join(" · ") : "");
    } catch (error) { fill("runs", elastune.trouble(error)); }
  }
  load();
  setInterval(load, 5000);
})();
