'use strict';

// What is known of what one points at, as a title and lines [name, value].
const machineWords = (() => {
  const {rate, lineRate, time} = figures;
  const KINDS = {
    gpu: 'machine.gpu', cpu: 'machine.cpu', pci: 'machine.pci', nvswitch: 'machine.nvswitch', nic: 'machine.nic',
    storage: 'machine.storage', switch: 'machine.switch',
  };
  const LINKS = {
    shm: 'machine.link_shm', pcie: 'machine.link_pcie', nvlink: 'machine.link_nvlink', c2c: 'machine.link_c2c',
    xgmi: 'machine.link_xgmi', cpu: 'machine.link_cpu', ethernet: 'machine.link_ethernet',
    infiniband: 'machine.link_infiniband',
  };
  /** @type {Record<string, string>} */
  const PATHS = {
    LOC: 'machine.path_loc', NVL: 'machine.path_nvl', NVB: 'machine.path_nvb', C2C: 'machine.path_c2c',
    PIX: 'machine.path_pix', PXB: 'machine.path_pxb', P2C: 'machine.path_p2c', PXN: 'machine.path_pxn',
    PHB: 'machine.path_phb', SYS: 'machine.path_sys', NET: 'machine.path_net', DIS: 'machine.path_dis',
  };

  const PATTERNS = {
    ring: 'machine.ring', tree: 'machine.tree', balanced_tree: 'machine.balanced_tree',
    split_tree: 'machine.split_tree', nvls: 'machine.nvls', collnet_chain: 'machine.collnet_chain',
    collnet_direct: 'machine.collnet_direct',
  };
  const NOTES = {unknown: 'machine.unknown', trap: 'machine.trap', assumed: 'machine.assumed'};

  /** @param {MachineData} data @param {number} n @param {Translate} t */
  function device(data, n, t) {
    const d = data.devices[n];
    /** @type {TipContent['lines']} */
    const lines = [[t(KINDS[d.kind]), d.about]];
    if (d.rate_Bps) lines.push([t('machine.rate'), lineRate(d.rate_Bps)]);
    if (d.sm) lines.push([t('machine.sm'), `${(d.sm / 10).toFixed(1)}`]);
    if (d.numa >= 0) lines.push([t('machine.cpu'), String(d.numa)]);
    if (d.kind === 'gpu' || d.kind === 'nic') lines.push(['GPUDirect RDMA', t(d.gdr ? 'machine.yes' : 'machine.no')]);
    d.further.forEach((text) => lines.push(['', text]));
    for (const {kind, text} of data.notes.filter(({about}) => about.split(' ')[0] === d.name)) {
      if (kind !== 'source') lines.push([t(NOTES[kind]), text]);
    }
    return {title: d.name, lines};
  }

  /** @param {MachineData} data @param {number} n @param {Translate} t */
  function link(data, n, t) {
    const k = data.links[n];
    const [a, b] = [data.devices[k.a].name, data.devices[k.b].name];
    const same = k.there_Bps === k.back_Bps;
    const both = `${rate(k.there_Bps)} → · ← ${rate(k.back_Bps)}`;
    /** @type {TipContent['lines']} */
    const lines = [[t(LINKS[k.kind]), k.words]];
    lines.push([t('machine.bandwidth'), same ? t('machine.each_way', {rate: rate(k.there_Bps)}) : both]);
    if (k.latency_s) lines.push([t('machine.latency'), time(k.latency_s)]);
    return {title: `${a} – ${b}`, lines};
  }

  /** @param {MachineMatrix} matrix @param {MatrixCell} at @param {Translate} t */
  function cell(matrix, {row, column}, t) {
    const [a, b] = [row, column].map((i) => matrix.name(i));
    if (row === column) return {title: a, lines: []};
    const kind = matrix.kind(row, column);
    /** @type {TipContent['lines']} */
    const lines = [[kind, t(PATHS[kind])]];
    if (matrix.bandwidth(row, column)) lines.push([t('machine.bandwidth'), rate(matrix.bandwidth(row, column))]);
    return {title: `${a} → ${b}`, lines};
  }

  /** @param {MachineData} data @param {Hop} hop @param {Translate} t */
  function hop(data, {from, to, channel}, t) {
    const [a, b] = [from, to].map((n) => data.devices[n].name);
    /** @type {TipContent['lines']} */
    const lines = [[t('machine.channel'), String(channel)]];
    return {title: `${a} → ${b}`, lines};
  }

  return {KINDS, PATHS, PATTERNS, device, link, cell, hop};
})();
