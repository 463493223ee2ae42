"use strict";
(function () {
  const { el, fill, read, duration, usd, number, table } = elastune;
  const wanted = new URLSearchParams(location.search).get("runs") || "";
  if (!wanted) {
    fill("compare", el("p", { class: "muted" }, "Choose runs in the ", el("a", { href: "/" }, "list of runs"), " to compare them."));
    return;
  }
  read(`/api/compare?runs=${encodeURIComponent(wanted)}`).then(({ runs }) => {
    for (const run of runs) run.label = `${run.name} ${run.policy} ${run.run}`;
    const metrics = new Set(runs.map((run) => run.metric));
    const time = el("div", { class: "plot" }), money = el("div", { class: "plot" });
    const last = (list) => list.length ? list[list.length - 1] : null;
    const columns = [
      { title: "run", value: (row) => row.label, words: true, show: (row) => el("a", { href: `/runs/${row.run}` }, row.label) },
      { title: "seed", value: (row) => row.seed },
      { title: "trials", value: (row) => row.trials },
      { title: "time", value: (row) => row.end_s, show: (row) => duration(row.end_s) },
      { title: "cost", value: (row) => (last(row.money) || [0, 0])[1], show: (row) => row.is_free ? "" : usd((last(row.money) || [0, 0])[1]) },
      { title: "best", value: (row) => (last(row.best) || {}).value, show: (row) => number((last(row.best) || {}).value) },
    ];
    fill("compare", el("h1", {}, "Comparison"), metrics.size > 1 ? el("p", { class: "trouble" }, `These runs have different metrics: ${[...metrics].join(", ")}.`) : null,
      table(columns, runs), el("h2", {}, "Best so far against time"), time,
      runs.every((run) => run.is_free) ? null : [el("h2", {}, "Best so far against money"), money]);
    elastune.plots.best(time, runs, "time");
    if (!runs.every((run) => run.is_free)) elastune.plots.best(money, runs, "money");
  }).catch((error) => fill("compare", elastune.trouble(error)));
})();
