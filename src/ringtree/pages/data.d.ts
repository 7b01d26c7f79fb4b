// What Python gives the pages: the JSON by view (PageData) that assemble() puts into them. A test holds what Python
// writes to these types (tests/pages/test_page_types.py), and make check what the scripts read. Units end a name.

/** Numbers by pages.encode: as base64 of the narrowest type that holds them, or one number where all are equal. */
type Column = number | {type: 'int8' | 'int16' | 'int32' | 'float64'; base64: string};

/** The element with id "data". `texts` has English and Chinese by key. */
interface Page {
  title: string;
  views: ViewName[];
  data: PageData;
  texts: Record<string, [string, string]>;
}

interface PageData {
  schedule: ScheduleData;
  trace: TraceData;
  report: ReportData;
  train: TrainData;
  machine: MachineData;
  doctor: DoctorData;
}
type ViewName = keyof PageData;

// -- schedule_page.schedule_data

interface ScheduleData {
  name: string;
  collective: string;
  ranks: number;
  switches: number;
  chunks: number;
  root: number | null;
  scratch: number;
  rounds: number;
  transfers: number;
  inPlace: boolean;
  reduces: boolean;
  /** A contribution may be added twice. */
  repeats: boolean;
  /** [transfers], by round; a buffer is data, input, output or scratch. */
  columns: Record<TransferColumn, Column>;
  promise: Record<PromisePerRank | PromisePerOwed, Column>;
  trees: Tree[];
  /** By rank. */
  hosts: number[] | null;
}
type TransferColumn =
  | 'round' | 'source' | 'target' | 'source_buffer' | 'source_chunk' | 'target_buffer' | 'target_chunk' | 'count'
  | 'reduce';
type PromisePerRank = 'heldStart' | 'heldCount' | 'owedStart' | 'owedCount' | 'contributors';
type PromisePerOwed = 'label' | 'origin';

/** What plays a schedule has all of this, and what it found of its own (schedule/contents.js). */
interface Contents extends ScheduleData {}

/** `parent` by rank, -1 for the root; the tree serves these chunks. */
interface Tree {
  parent: number[];
  chunks: number[];
  ways: ('up' | 'down')[];
}

// -- trace_page.trace_data

interface TraceData {
  traces: TraceRecord[];
}

interface TraceRecord {
  ranks: number;
  count: number;
  span_s: number;
  /** From when all ranks had begun. */
  all_begun_s: number;
  messages: number;
  calls: string[];
  facts: Record<string, string>;
  /** [ranks] the number of each rank's host. */
  hosts: number[];
  /** How far times of two hosts may be wrong; null for one host, a simulation, or clocks that were not aligned. */
  clock_error_s: number | null;
  /** Between hosts that exchanged messages. */
  links: HostLinkRecord[];
  /** [count], by start; `other` is the event at the other end of a message, or -1. */
  events: Record<EventColumn, Column>;
  /** [ranks] */
  per_rank: Record<RankColumn, Column>;
  /** `what` counts trace_page.STEPS, as sums_s does; `event` is -1 where the rank was idle. */
  critical: {count: number; sums_s: number[]} & Record<CriticalColumn, Column>;
}
interface HostLinkRecord {
  source: number;
  target: number;
  messages: number;
  nbytes: number;
  busy_s: number;
  median_s: number;
  rate_Bps: number;
}
type EventColumn =
  | 'rank' | 'kind' | 'start_s' | 'end_s' | 'nbytes' | 'peer' | 'chunk' | 'channel' | 'call' | 'other';
type RankColumn =
  | 'copy_s' | 'reduce_s' | 'wait_s' | 'stall_s' | 'compute_s' | 'idle_s' | 'sent_nbytes' | 'received_nbytes';
type CriticalColumn = 'event' | 'rank' | 'what' | 'start_s' | 'end_s';

// -- report_page.report_data

interface ReportData {
  records: {name: string; machine: Record<string, MachineFact>; effort: Record<string, unknown>}[];
  /** Whether all times are predicted, and none measured. */
  predicted: boolean;
  /** The keys of `machine` in which the records differ. */
  differing: string[];
  /** Collective, type, operation. */
  whats: [string, string, string][];
  lines: string[];
  /** Columns [count]; timesUs by text.report.STATISTICS, 0: none; wrong out of place and in place, -1: not checked. */
  points: {count: number; timesUs: Column[]; wrong: Column[]; algorithm: string[]; program: string[]} & Record<
    PointColumn,
    Column
  >;
  /** Columns [count]; axis 0 is over sizes at a number of ranks, 1 over ranks at a size. */
  crossings: {count: number} & Record<CrossingColumn, Column>;
}
type MachineFact = string | number | string[] | null;
type PointColumn = 'line' | 'what' | 'ranks' | 'nbytes' | 'busFactor';
type CrossingColumn = 'statistic' | 'what' | 'axis' | 'at' | 'below' | 'above' | 'x';

// -- training's record, as `ringtree train --json` writes it, and the step's calls as SVG

interface TrainData {
  picture: string;
  ranks: number;
  axes: Record<string, number>;
  strategies: string[];
  groups: {names: string[]; members: number[][]}[];
  parameters: number;
  steps: TrainStep[];
  median_s: number;
  tokens: number;
  tokens_per_s: number;
  traced_s: number;
  /** By rank, in bytes. */
  held: {parameters: number; gradients: number; optimizer_state: number}[];
  /** By collective and axis, on the average over the ranks, the most first. */
  shares: Share[];
  sent: SentBytes[];
  formula_nbytes: number;
  counted_nbytes: number;
  /** What only the file of --json is read for. */
  [further: string]: unknown;
}

/** A loss that is infinite or no number is a text. */
interface TrainStep {
  step: number;
  loss: number | string;
  seconds: number;
  received_nbytes: number;
}

interface Share {
  collective: string;
  axis: string;
  work_s: number;
  wait_s: number;
  sent_nbytes: number;
  algorithms: string[];
}

interface SentBytes {
  whats: string[];
  collective: string;
  axis: string;
  ranks: number;
  formula_nbytes: number;
  counted_nbytes: number | null;
  algorithms: string[];
  why: string;
}

// -- machine_page.machine_data

interface MachineData {
  name: string;
  gpu: string;
  joined: {links: string; bandwidth_Bps: number} | null;
  network: {nodes: number; ranks: number; fabric: string; network: string; oversubscription: number} | null;
  devices: Device[];
  links: DeviceLink[];
  tree: Branch[];
  /** The names of paths, by number. */
  kinds: string[];
  /** Between each two of `devices`, row by row; the path of a pair is links[first[pair]] to links[first[pair + 1]]. */
  matrix: {
    devices: number[];
    kinds: Column;
    bandwidths_MBps: Column;
    routes: {first: Column; count: number; links: Column} | null;
  };
  rules: {what: 'p2p' | 'gdr'; applies: boolean; found: number; total: number; why: string}[];
  notes: {kind: 'unknown' | 'trap' | 'assumed' | 'source'; about: string; text: string}[];
  channels: Channels[];
  /** Two GPUs' names, and the routes from one to the other. */
  between: string[];
  ways: DeviceWay[];
}

type DeviceKind = 'gpu' | 'cpu' | 'pci' | 'nvswitch' | 'nic' | 'storage' | 'switch';
type LinkKind = 'shm' | 'pcie' | 'nvlink' | 'c2c' | 'xgmi' | 'cpu' | 'ethernet' | 'infiniband';
type Pattern =
  'ring' | 'tree' | 'balanced_tree' | 'split_tree' | 'nvls' | 'collnet_chain' | 'collnet_direct';

interface Device {
  name: string;
  kind: DeviceKind;
  about: string;
  busid: string;
  numa: number;
  sm: number;
  gdr: boolean;
  rate_Bps: number;
  further: string[];
}

/** All links of a kind between devices a < b: their bandwidth together, from a to b and back. */
interface DeviceLink {
  a: number;
  b: number;
  kind: LinkKind;
  generation: number;
  width: number;
  there_Bps: number;
  back_Bps: number;
  latency_s: number;
  words: string;
}

/** A device, the number of the link that it hangs on or -1, and what hangs on it. */
type Branch = [device: number, link: number, below: Branch[]];

/** By channel: the order of the GPUs, by local rank; the NICs that it enters and leaves by, by local number. */
interface Channels {
  pattern: Pattern;
  orders: number[][];
  nics: [enter: number, leave: number][];
  intra_Bps: number;
  inter_Bps: number;
  intra: string;
  inter: string;
}

interface DeviceWay {
  way: string;
  applies: boolean;
  why: string;
  stops: number;
  bandwidth_Bps: number;
  MiB_s: number;
  copies: {
    what: string;
    source: string;
    target: string;
    by: string;
    bandwidth_Bps: number;
    latency_s: number;
    lands: boolean;
  }[];
}

// -- doctor_page.doctor_page: what `ringtree doctor --json` prints

interface DoctorData {
  form: number;
  problems: number;
  notes: number;
  hosts: {host: number; name: string; ranks: number[]; checks: DoctorRow[]}[];
  findings: DoctorRow[];
  links: DoctorLinkData | null;
}

interface DoctorRow {
  section: string;
  name: string;
  state: 'ok' | 'note' | 'problem';
  found: string;
  remedies: string[];
  /** By the row's own names. */
  figures: {[name: string]: unknown};
}

/** [hosts][hosts] from row to column, null on the diagonal. */
interface DoctorLinkData {
  latency_s: (number | null)[][];
  bandwidth_Bps: (number | null)[][];
  ways: (DoctorWay | null)[][];
  pair_budget_s: number;
  took_s: number;
}

/** The TCP connection that carried most bytes to another host. */
interface DoctorWay {
  interface: string;
  address: string;
  peer_address: string;
  path_mtu_bytes: number;
  sent_segments: number;
  retransmitted_segments: number;
}
