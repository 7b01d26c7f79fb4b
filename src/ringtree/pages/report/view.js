'use strict';

// Bench records: four charts of the same lines, the choices above them, the rows below, and the machines. Facts are in
// the DOM: data-line, data-x and data-y on what is drawn.
class ReportView {
  machine = make('p.report-machine');
  warning = make('p.report-warning');
  heading = make('h2.report-heading');
  machines = make('div.report-machines');
  keys = {
    i: () => this.choose({inPlace: 1 - this.choice.inPlace}), m: () => this.choose({min: 1 - this.choice.min}),
    ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
  };
  help = [['I', 'report.key_in_place'], ['M', 'report.key_min'], ['← →', 'report.key_ranks']];
  notes = ['report.note_crossing', 'report.note_legend', 'report.note_machine'];

  /** @param {HTMLElement} element @param {ReportData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
    this.choice = new ReportChoice(reportPoints(data, shell));
    this.charts = new ReportCharts(data, this.choice, shell);
    this.table = new ReportTable(shell, data.predicted, (row) => this.charts.highlight(row && row.line, row?.index));
    this.controls = new ReportControls(data, this.choice, shell, {
      changed: () => this.redraw(), pointed: (line) => this.charts.highlight(line),
    });
    const {controls: {bar, legend}, table: {table: rows, note}} = this;
    element.append(bar, this.machine, this.warning, legend, this.charts.element);
    element.append(this.heading, rows, note, this.machines);
  }

  /** @param {Partial<Chosen>} change */
  choose(change) {
    this.choice.set(change);
    this.redraw();
  }

  /** @param {number} by */
  step(by) {
    this.choice.step(by);
    this.redraw();
  }

  redraw() {
    const {element, data, choice, shell} = this;
    const what = reportWhat(data, choice.what);
    const statistic = ReportChoice.STATISTICS[choice.statistic];
    Object.assign(element.dataset, {what, ranks: choice.ranks, size: choice.nbytes, statistic});
    this.controls.draw();
    const differing = data.differing.map((key) => shell.t(REPORT_MACHINE[key])).join(', ');
    this.machine.textContent = differing ? '' : reportMachine(data.records[0].machine, shell);
    this.warning.hidden = !differing;
    this.warning.textContent = shell.t('report.warning', {what: differing});
    this.charts.draw(roomIn(element));
    this.heading.textContent = `${shell.t('report.rows')} · ${what}`;
    this.table.show(reportRows(choice, data.lines));
    this.machines.replaceChildren(...reportMachines(data, shell));
  }

  svg() {
    return reportPicture(this.charts.svg, this.choice.shown().map((p) => p.line), this.data.lines, this.shell);
  }
}

ringtree.view('report', {mount: (element, data, shell) => new ReportView(element, data, shell)});
