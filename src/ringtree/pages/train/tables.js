'use strict';

// Where a step's time went, and its bytes beside the formula.
const trainTables = (() => {
  const {make} = ringtree;

  // `numbers`: the columns that have some.
  function table(name, heads, numbers, rows) {
    const what = (i) => (numbers.includes(i) ? 'th.number' : 'th');
    const head = make('tr', {}, ...heads.map((words, i) => make(what(i), {scope: 'col'}, words)));
    return make(`table.train-table.${name}`, {}, make('thead', {}, head), make('tbody', {}, ...rows));
  }

  function bar(work, wait) {
    const part = (kind, share) => make(`span.${kind}`, {style: `width: ${Math.min(100, 100 * share)}%`});
    return make('td', {}, make('div.train-bar', {}, part('work', work), part('wait', wait)));
  }

  // A row a collective and axis, the longest first, and what is left for computing.
  function time(data, {t}) {
    const row = (name, work, wait, classes = '') => make(`tr${classes}`, {data: {work, wait}},
      make('th', {scope: 'row'}, name), make('td.number', {}, trainUnits.percent(work)),
      make('td.number', {}, classes ? '' : trainUnits.percent(wait)), bar(work, wait));
    const share = (s) => s / data.traced_s;
    const rows = data.shares.map((s) => row(t('train.over', {collective: s.collective, axis: s.axis}),
      share(s.work_s), share(s.wait_s)));
    const rest = Math.max(0, 1 - d3.sum(data.shares, (s) => share(s.work_s + s.wait_s)));
    return table('train-time', ['', t('train.work'), t('train.wait'), ''], [1, 2], [...rows, row(t('train.rest'), rest, 0, '.rest')]);
  }

  // What is more for a reason is no fault.
  function verdict(formula, counted, why, t) {
    if (counted === null) return make('td', {}, '–');
    if (counted === formula) return make('td.same', {}, `✓ ${t('train.equal')}`);
    return why ? make('td', {}, why) : make('td.differs', {}, `✗ ${t('train.differs')}`);
  }

  function bytes(data, {t, number}) {
    const row = (name, by, over, formula, counted, why) => make('tr', {data: {formula, counted: counted ?? ''}},
      make('th', {scope: 'row'}, name), make('td', {}, by), make('td', {}, over),
      make('td.number', {}, number(formula)), make('td.number', {}, counted === null ? '–' : number(counted)),
      verdict(formula, counted, why, t));
    const by = (s) => (s.algorithms.length ? `${s.collective} (${s.algorithms.join(', ')})` : s.collective);
    const rows = data.sent.map((s) => row(s.whats.join(', ') || t('train.unforetold'), by(s),
      t('train.axis_of', {axis: s.axis, ranks: s.ranks}), s.formula_nbytes, s.counted_nbytes, s.why));
    const isExplained = data.sent.some((s) => s.why);
    const whole = row(t('train.counters'), '', '', data.formula_nbytes, data.counted_nbytes, isExplained ? t('train.see') : '');
    const heads = [t('train.what'), t('train.by'), t('train.of'), t('train.formula'), t('train.counted'), ''];
    return data.sent.length ? table('train-bytes', heads, [3, 4], [...rows, whole]) : make('p.train-said', {}, t('train.nothing'));
  }

  return {time, bytes};
})();
