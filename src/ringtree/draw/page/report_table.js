'use strict';

// The rows under the charts: sortable by any column, each tied to its point in the charts.
const reportTable = (() => {
  const MOST = 1000;
  const COLUMNS = [
    ['line', 'report.line', (row) => row.name, false],
    ['algorithm', 'report.algorithm', (row) => row.algorithm, false],
    ['ranks', 'report.ranks', (row) => row.ranks, true],
    ['bytes', 'report.bytes', (row) => row.nbytes, true],
    ['median', 'report.median_us', (row) => row.median, true],
    ['min', 'report.min_us', (row) => row.min, true],
    ['algbw', 'report.algbw', (row) => row.algbw, true],
    ['busbw', 'report.busbw', (row) => row.busbw, true],
    ['behind', 'report.behind', (row) => row.behind, true],
    ['wrong', 'report.wrong', (row) => row.wrong, true],
  ];
  const DIGITS = {median: 2, min: 2, algbw: 3, busbw: 3, behind: 2};

  function cellText(key, value, shell) {
    if (typeof value !== 'number') return value;
    if (Number.isNaN(value) || value < 0) return '–';
    const digits = DIGITS[key] || 0;
    return value.toLocaleString(shell.language, {minimumFractionDigits: digits, maximumFractionDigits: digits});
  }

  function create(shell, onHover) {
    const table = document.createElement('table');
    table.className = 'report-table';
    const note = document.createElement('p');
    note.className = 'report-note';
    let order = {key: null, down: false};
    let rows = [];

    function sorted() {
      if (order.key === null) return rows;
      const read = COLUMNS.find(([key]) => key === order.key)[2];
      const compare = order.down ? d3.descending : d3.ascending;
      return [...rows].sort((a, b) => compare(read(a), read(b)));
    }

    function head() {
      const tr = table.createTHead().insertRow();
      for (const [key, text, , isNumber] of COLUMNS) {
        const th = document.createElement('th');
        th.scope = 'col';
        th.className = isNumber ? 'number' : '';
        if (order.key === key) th.setAttribute('aria-sort', order.down ? 'descending' : 'ascending');
        const button = document.createElement('button');
        button.type = 'button';
        button.dataset.column = key;
        button.textContent = shell.t(text) + (order.key === key ? (order.down ? ' ↓' : ' ↑') : '');
        button.onclick = () => {
          order = {key, down: order.key === key && !order.down};
          draw();
          table.querySelector(`[data-column=${key}]`).focus();
        };
        th.append(button);
        tr.append(th);
      }
    }

    function body() {
      const tbody = table.createTBody();
      for (const row of sorted().slice(0, MOST)) {
        const tr = tbody.insertRow();
        tr.dataset.point = row.index;
        tr.onpointerenter = () => onHover(row);
        tr.onpointerleave = () => onHover(null);
        for (const [key, , read, isNumber] of COLUMNS) {
          const td = tr.insertCell();
          td.textContent = cellText(key, read(row), shell);
          if (isNumber) td.className = 'number';
          if (key === 'line') td.prepend(row.swatch());
          if (key === 'behind' && row.behind === 1) td.classList.add('best');
          if (key === 'wrong' && row.wrong > 0) td.classList.add('wrong');
        }
      }
    }

    function draw() {
      table.replaceChildren();
      head();
      body();
      note.textContent = rows.length > MOST ? shell.t('report.more', {most: MOST, count: rows.length}) : '';
    }

    return {
      elements: [table, note],
      show(shown) {
        rows = shown;
        draw();
      },
    };
  }

  return {create};
})();
