"use strict";
(function () {
  const { el, fill, read, duration, usd, number, table } = elastune;
  const wanted = new URLSearchParams(location.search).get("runs") || "";
  if (!wanted) {
    fill("compare", el("h1", {}, "Comparison"), el("div", { class: "empty" }, el("p", {}, "Tick two or more runs in the ", el("a", { href: "/" }, "list of runs"), ", then press Compare."), el("p", { class: "muted" }, "Their best values are drawn against time and against money.")));
    return;
  }
  // Means of the runs of each policy, where one has several.
  function policies(runs) {
    const groups = Map.groupBy ? Map.groupBy(runs, (run) => run.policy) : runs.reduce((map, run) => map.set(run.policy, [...(map.get(run.policy) || []), run]), new Map());
    if (groups.size < 2 || groups.size === runs.length) return null;
    const mean = (values) => { const there = values.filter((value) => typeof value === "number"); return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null; };
    const end = (list) => list[list.length - 1];
    const rows = [...groups].map(([policy, members]) => ({ policy, runs: members.length, time: mean(members.map((run) => run.end_s)),
      cost: mean(members.map((run) => (end(run.money) || [0, 0])[1])), best: mean(members.map((run) => (end(run.best) || {}).value)) }));
    return [el("h2", {}, "By policy, means"), table([{ title: "policy", value: (row) => row.policy, words: true }, { title: "runs", value: (row) => row.runs },
      { title: "time", value: (row) => row.time, show: (row) => duration(row.time) }, { title: "cost", value: (row) => row.cost, show: (row) => usd(row.cost) }, { title: "best", value: (row) => row.best }], rows)];
  }
  elastune.plots.load();
  read(`/api/compare?runs=${encodeURIComponent(wanted)}`).then(({ runs, broken }) => {
    const troubles = broken.map((each) => elastune.trouble(each.reason));
    if (!runs.length) { fill("compare", el("h1", {}, "Comparison"), troubles); return; }
    for (const run of runs) run.label = [...new Set([run.name, run.policy, run.run])].join(" ");
    const metrics = new Set(runs.map((run) => run.metric));
    const time = el("div", { class: "plot" }), money = el("div", { class: "plot" });
    const last = (list) => list.length ? list[list.length - 1] : null;
    const columns = [
      { title: "run", value: (row) => row.run, words: true, show: (row) => el("a", { href: `/runs/${row.run}` }, row.run) },
      { title: "name", value: (row) => row.name, words: true },
      { title: "policy", value: (row) => row.policy, words: true },
      { title: "seed", value: (row) => row.seed },
      { title: "trials", value: (row) => row.trials },
      { title: "time", value: (row) => row.end_s, show: (row) => duration(row.end_s) },
      { title: "cost", value: (row) => (last(row.money) || [0, 0])[1], show: (row) => row.is_free ? "" : usd((last(row.money) || [0, 0])[1]) },
      { title: "best", value: (row) => (last(row.best) || {}).value, show: (row) => number((last(row.best) || {}).value) },
    ];
    fill("compare", el("h1", {}, "Comparison"), troubles, metrics.size > 1 ? el("p", { class: "trouble" }, `These runs have different metrics: ${[...metrics].join(", ")}.`) : null,
      table(columns, runs), policies(runs), el("h2", {}, "Best so far against time"), time,
      runs.every((run) => run.is_free) ? null : [el("h2", {}, "Best so far against money"), money]);
    elastune.plots.best(time, runs, "time");
    if (!runs.every((run) => run.is_free)) elastune.plots.best(money, runs, "money");
  }).catch((error) => fill("compare", elastune.trouble(error)));
})();
