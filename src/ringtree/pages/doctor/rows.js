'use strict';

// Rows of checks: state, name, what was found, and the commands that get what is missing.
const {make, table, choices} = elements;

const doctorRows = (() => {
  const SIGNS = {ok: '✓', note: '!', problem: '✗'};
  const WORDS = {ok: 'doctor.ok', note: 'doctor.note', problem: 'doctor.problem'};

  /** @param {DoctorRow} row @param {Shell} shell */
  function line({state, name, found, remedies}, {t}) {
    const commands = remedies.map((command) => make('code', {}, command));
    return make('tr', {data: {state, name}},
      make(`td.state.${state}`, {}, `${SIGNS[state]} ${t(WORDS[state])}`),
      make('th', {scope: 'row'}, name),
      make('td', {}, found, ...(commands.length ? [make('div.doctor-remedies', {}, ...commands)] : [])));
  }

  /** A table of rows, with a line above each section. @param {DoctorRow[]} rows @param {Shell} shell */
  function show(rows, shell) {
    const lines = rows.flatMap((row, n) => {
      const isFirst = n === 0 || rows[n - 1].section !== row.section;
      const head = make('tr.doctor-section', {}, make('th', {colSpan: 3, scope: 'colgroup'}, row.section));
      return isFirst ? [head, line(row, shell)] : [line(row, shell)];
    });
    const {t} = shell;
    return table('table.doctor-rows', [t('doctor.state'), t('doctor.check'), t('doctor.found')], lines);
  }

  return {show};
})();
