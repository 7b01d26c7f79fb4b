'use strict';

// Hosts and the links between them, checked: what is wrong first.
class DoctorView {
  facts = make('div.doctor-facts');
  hosts = make('div.doctor-hosts');
  rows = make('div');
  findings = make('div');
  chosen = 0;
  isWhole = true;
  help = [['← →', 'doctor.key_host'], ['M', 'doctor.key_matrix'], ['A', 'doctor.key_all']];
  notes = ['doctor.note_slow'];
  keys = {
    ArrowLeft: () => this.choose(this.chosen - 1),
    ArrowRight: () => this.choose(this.chosen + 1),
    m: () => this.links?.toggle(),
    a: () => this.whole(!this.isWhole),
  };

  /** @param {HTMLElement} element @param {DoctorData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
    this.links = data.links && new DoctorLinks(data.hosts.map((host) => host.name), data.links, shell);
    element.append(this.facts,
      ...(data.findings.length ? [this.section('doctor.between', this.findings)] : []),
      ...(this.links ? [this.section('doctor.links', this.links.element)] : []),
      this.section('doctor.hosts', this.hosts, this.rows));
  }

  /** @param {string} title @param {Element[]} children */
  section(title, ...children) {
    return make('section.doctor-part', {data: {part: title.split('.')[1]}},
      make('h2', {data: {t: title}}), ...children);
  }

  /** @param {number} host */
  choose(host) {
    const count = this.data.hosts.length;
    this.chosen = (host + count) % count;
    this.redraw();
  }

  /** @param {boolean} isWhole */
  whole(isWhole) {
    this.isWhole = isWhole;
    this.redraw();
  }

  redraw() {
    const {data, shell, chosen, isWhole} = this;
    const {t, number} = shell;
    Object.assign(this.element.dataset, {hosts: data.hosts.length, problems: data.problems, notes: data.notes});
    /** @param {string} name @param {number} count */
    const fact = (name, count, colour = '') => make('div.doctor-fact', {},
      make(count && colour ? `b.${colour}` : 'b', {}, number(count)), make('span', {}, name));
    this.facts.replaceChildren(fact(t('doctor.problems'), data.problems, 'problems'),
      fact(t('doctor.notes'), data.notes, 'notes'), fact(t('doctor.hosts'), data.hosts.length));
    this.findings.replaceChildren(doctorRows.show(data.findings, shell));
    this.links?.redraw();
    elements.refill(this.hosts,
      choices(t('doctor.hosts'), ...data.hosts.map((host, n) => ({
        id: `doctor-host-${n}`, words: this.#words(host), isOn: n === chosen, choose: () => this.choose(n),
      }))),
      choices(t('doctor.rows'), ...[true, false].map((all) => ({
        id: all ? 'doctor-all' : 'doctor-wrong', words: t(all ? 'doctor.all' : 'doctor.wrong'), isOn: all === isWhole,
        choose: () => this.whole(all),
      }))));
    const rows = data.hosts[chosen].checks.filter((row) => isWhole || row.state !== 'ok');
    this.rows.replaceChildren(rows.length ? doctorRows.show(rows, shell)
      : make('p.doctor-note', {}, t('doctor.nothing')));
  }

  /** A host's name, and how many notes and problems it has. @param {DoctorData['hosts'][number]} host */
  #words({name, checks}) {
    /** @param {DoctorRow['state']} state */
    const many = (state) => checks.filter((row) => row.state === state).length;
    return `${name}  ✗ ${many('problem')}  ! ${many('note')}`;
  }
}

ringtree.view('doctor', {mount: (element, data, shell) => new DoctorView(element, data, shell)});
