'use strict';

// Where a step's time went, and its bytes beside the formula.
const trainTables = (() => {
  /** The head of a column of numbers. @param {string} words */
  const numbers = (words) => make('th.number', {scope: 'col'}, words);

  /** @param {number} work @param {number} wait */
  function bar(work, wait) {
    /** @param {string} kind @param {number} share */
    const part = (kind, share) => make(`span.${kind}`, {style: `width: ${Math.min(100, 100 * share)}%`});
    return make('td', {}, make('div.train-bar', {}, part('work', work), part('wait', wait)));
  }

  /**
   * A row a collective and axis, the longest first, and what is left for computing.
   * @param {TrainData} data @param {Shell} shell
   */
  function time(data, {t}) {
    /** @param {string} name @param {number} work @param {number} wait */
    const row = (name, work, wait, classes = '') => make(`tr${classes}`, {data: {work, wait}},
      make('th', {scope: 'row'}, name), make('td.number', {}, figures.percent(work, 1)),
      make('td.number', {}, classes ? '' : figures.percent(wait, 1)), bar(work, wait));
    /** @param {number} s */
    const share = (s) => s / data.traced_s;
    const rows = data.shares.map((s) => row(t('train.over', {collective: s.collective, axis: s.axis}),
      share(s.work_s), share(s.wait_s)));
    const rest = Math.max(0, 1 - d3.sum(data.shares, (s) => share(s.work_s + s.wait_s)));
    const heads = ['', numbers(t('train.work')), numbers(t('train.wait')), ''];
    return table('table.train-table.train-time', heads, [...rows, row(t('train.rest'), rest, 0, '.rest')]);
  }

  /**
   * What is more for a reason is no fault.
   * @param {number} formula @param {number | null} counted @param {string} why @param {Translate} t
   */
  function verdict(formula, counted, why, t) {
    if (counted === null) return make('td', {}, '–');
    if (counted === formula) return make('td.same', {}, `✓ ${t('train.equal')}`);
    return why ? make('td', {}, why) : make('td.differs', {}, `✗ ${t('train.differs')}`);
  }

  /** @param {TrainData} data @param {Shell} shell */
  function bytes(data, {t, number}) {
    /**
     * @param {string} name @param {string} by @param {string} over @param {number} formula
     * @param {number | null} counted @param {string} why
     */
    const row = (name, by, over, formula, counted, why) => make('tr', {data: {formula, counted: counted ?? ''}},
      make('th', {scope: 'row'}, name), make('td', {}, by), make('td', {}, over),
      make('td.number', {}, number(formula)), make('td.number', {}, counted === null ? '–' : number(counted)),
      verdict(formula, counted, why, t));
    /** @param {SentBytes} s */
    const by = (s) => (s.algorithms.length ? `${s.collective} (${s.algorithms.join(', ')})` : s.collective);
    const rows = data.sent.map((s) => row(s.whats.join(', ') || t('train.unforetold'), by(s),
      t('train.axis_of', {axis: s.axis, ranks: s.ranks}), s.formula_nbytes, s.counted_nbytes, s.why));
    const isExplained = data.sent.some((s) => s.why);
    const why = isExplained ? t('train.see') : '';
    const whole = row(t('train.counters'), '', '', data.formula_nbytes, data.counted_nbytes, why);
    if (!data.sent.length) return make('p.train-note', {}, t('train.nothing'));
    const counts = [numbers(t('train.formula')), numbers(t('train.counted'))];
    const heads = [t('train.what'), t('train.by'), t('train.of'), ...counts, ''];
    return table('table.train-table.train-bytes', heads, [...rows, whole]);
  }

  return {time, bytes};
})();
