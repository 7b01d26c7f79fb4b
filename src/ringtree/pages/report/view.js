'use strict';

// Bench records: four charts of the same lines, the choices above them, the rows below, and the machines. Facts are in
// the DOM: data-line, data-x and data-y on what is drawn.
class ReportView {
  constructor(element, data, shell) {
    Object.assign(this, {element, data, shell, choice: new ReportChoice(reportPoints(data, shell))});
    this.controls = new ReportControls(element, data, this.choice, shell, {
      changed: () => this.redraw(), pointed: (line) => this.charts.highlight(line),
    });
    this.machine = reportPart(element, 'p', 'report-machine');
    this.warning = reportPart(element, 'p', 'report-warning');
    element.append(this.controls.legend);
    this.charts = new ReportCharts(element, data, this.choice, shell);
    this.heading = reportPart(element, 'h2', 'report-heading');
    this.table = new ReportTable(element, shell, (row) => this.charts.highlight(row && row.line, row ? row.index : -1));
    this.machines = reportPart(element, 'div', 'report-machines');
    this.keys = {
      i: () => this.choose({inPlace: 1 - this.choice.inPlace}), m: () => this.choose({min: 1 - this.choice.min}),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
    };
    this.help = [['I', 'report.key_in_place'], ['M', 'report.key_min'], ['← →', 'report.key_ranks']];
    this.notes = ['report.note_crossing', 'report.note_legend', 'report.note_machine'];
  }

  choose(change) {
    this.choice.set(change);
    this.redraw();
  }

  step(by) {
    this.choice.step(by);
    this.redraw();
  }

  redraw() {
    const {element, data, choice, shell} = this;
    const what = data.whats[choice.what].join(' ');
    const statistic = ReportChoice.STATISTICS[choice.statistic];
    Object.assign(element.dataset, {what, ranks: choice.ranks, size: choice.nbytes, statistic});
    this.controls.draw();
    const differing = data.differing.map((key) => shell.t(REPORT_MACHINE[key])).join(', ');
    this.machine.textContent = differing ? '' : reportMachine(data.records[0].machine, shell);
    this.warning.hidden = !differing;
    this.warning.textContent = shell.t('report.warning', {what: differing});
    this.charts.draw(element.clientWidth - 2 * parseFloat(getComputedStyle(element).paddingLeft));
    this.heading.textContent = `${shell.t('report.rows')} · ${what}`;
    this.table.show(reportRows(choice, data.lines));
    this.machines.replaceChildren(...reportMachines(data, shell));
  }

  svg() {
    return reportPicture(this.charts.svg.node(), this.choice.shown().map((p) => p.line), this.data.lines, this.shell);
  }
}

ringtree.view('report', {mount: (element, data, shell) => new ReportView(element, data, shell)});
