// Programs of any bytes: what is not refused runs on a rank whose peers send what it waits for, and reads and writes
// nothing but its own memory.
#include "programs.h"

#include <map>
#include <optional>
#include <stdexcept>

#include "fuzz/input.h"
#include "interpreter/interpret.h"

namespace {

using fuzz::Input, fuzz::Seed;
using ringtree::Binding, ringtree::Descriptor, ringtree::Encoded, ringtree::Kind, ringtree::PreparedProgram;
using ringtree::Space;

constexpr std::size_t slot_bytes = 1024, longest = 4096;  // bytes of a message that a peer sends
constexpr std::int64_t most_bytes = 1 << 20;              // of an array; programs of longer ones are bound alone

// A case, as it lies in a file.
struct Case {
  struct Head {
    std::uint8_t ranks, slots, flags, dtype, op, scratch, sizes, inputs, outputs, instructions, operands, window;
  };
  enum Flag { wide = 1, multicast = 2, elsewhere = 4, anywhere = 8, any_sizes = 16, single_copy = 32, in_place = 64 };

  explicit Case(Input& input) : head(input.take<Head>()) {
    auto number = [&] { return has(wide) ? input.take<std::int64_t>() : input.take<std::uint8_t>(); };
    for (auto [column, n] : {std::pair(&sizes, head.sizes), {&inputs, head.inputs}, {&outputs, head.outputs}})
      for (int k = 0; k < n % 32; k++) column->push_back(number());
    instructions.resize(head.instructions % 64);
    input.fill(instructions.data(), instructions.size() * sizeof(Encoded::Instruction));
    operands.resize(head.operands % 128);
    input.fill(operands.data(), operands.size() * sizeof(Encoded::Operand));
  }
  bool has(Flag flag) const { return head.flags & flag; }
  int ranks() const { return 1 + head.ranks % 4; }
  int slots() const { return 1 + head.slots % 8; }
  Binding binding() const {
    Binding b;
    b.sizes = sizes;
    b.input_offsets = inputs;
    b.output_offsets = outputs;
    b.scratch = has(wide) ? std::int64_t{head.scratch} << (head.scratch % 57) : head.scratch;
    b.window = head.window;
    b.dtype = head.dtype % (ringtree::dtypes + 1);
    b.op = static_cast<int>(head.op % (ringtree::ops + 2)) - 1;
    b.collective = "all_reduce";
    b.single_copy = has(single_copy);
    return b;
  }

  Head head;
  std::vector<std::int64_t> sizes, inputs, outputs;
  std::vector<Encoded::Instruction> instructions;
  std::vector<Encoded::Operand> operands;
};

// The peers of rank 0: whenever it waits they take what it sent, and send what its program waits for next.
class Peers : public ringtree::Relay {
 public:
  // `room`: memory behind the segment's, of room_bytes().
  Peers(ringtree::Segment& segment, const Case& from, Input& input, std::byte* room)
      : segment_(segment), case_(from), input_(input), room_(room) {
    ASAN_POISON_MEMORY_REGION(room_, room_bytes(segment.layout()));
    for (int peer = 0; peer < case_.ranks(); peer++) {
      in_.push_back(segment.lane_in(0, peer));
      multicasts_in_.push_back(segment.multicast_in(0, peer));
      out_.push_back(segment.lane_out(peer, 0));
      multicasts_out_.push_back(segment.multicast_out(peer));
    }
  }
  static std::size_t rooms(const ringtree::Layout& layout) { return layout.ranks * 2 * layout.depth; }
  static std::size_t room_bytes(const ringtree::Layout& layout) { return rooms(layout) * longest + longest; }

  void serve(const PreparedProgram& plan) {
    for (std::int64_t window = 0; window < std::min<std::int64_t>(plan.windows, 300); window++)
      for (auto i = plan.instructions.begin(); i != plan.instructions.end(); ++i)
        if (i->kind == Kind::wait) (i->multicast ? due_to_all_ : due_)[i->peer].push_back(expected(plan, i, window));
  }

  bool advance() noexcept override {
    bool moved = false;
    for (int peer = 1; peer < case_.ranks(); peer++) {
      moved |= take(in_[peer]) || take(multicasts_in_[peer]);
      moved |= send(peer, out_[peer], due_[peer]) || send(peer, multicasts_out_[peer], due_to_all_[peer]);
    }
    return moved;
  }
  bool serves(int peer) const noexcept override { return case_.has(Case::elsewhere) && peer > 0; }
  bool sends_from_anywhere() const noexcept override { return case_.has(Case::anywhere); }
  std::byte* staging(int) override { return room_; }
  void flush(int) noexcept override {}
  void rest() noexcept override {}
  void settle() noexcept override {}
  void probe(int) noexcept override {}
  void probe_next() noexcept override {}
  void announce(std::uint64_t, const ringtree::Fingerprint&) noexcept override {}
  void announce_to_all(std::uint64_t, const ringtree::Fingerprint&) noexcept override {}
  void announce_for_host(std::uint64_t) noexcept override {}
  void keep_payloads() noexcept override {}
  void signal(int, int) noexcept override {}
  std::uint64_t arrival(int, std::uint64_t) const noexcept override { return 0; }

 private:
  using Instructions = std::vector<PreparedProgram::Instruction>;
  struct Due {
    std::size_t nbytes;
    ringtree::Fingerprint print;
  };

  // The bytes that the first to read the message expects.
  Due expected(const PreparedProgram& plan, Instructions::const_iterator wait, std::int64_t window) {
    Due due{0, plan.print};
    for (auto i = wait + 1; i != plan.instructions.end(); ++i) {
      if (i->kind == Kind::wait && i->reg == wait->reg) break;
      for (int k = i->targets; k < i->targets + i->sources; k++) {
        auto& o = plan.operands[i->operand + k];
        if (o.space != Space::message || o.reg != wait->reg) continue;
        for (std::uint32_t piece = 0; piece < i->pieces; piece++) {
          auto size = plan.sizes[i->size + piece];
          if (plan.windows > 1) size = std::clamp<std::int64_t>(size - window * plan.window, 0, plan.window);
          due.nbytes += static_cast<std::size_t>(size) * plan.item;
        }
        return due;
      }
    }
    return due;
  }

  template <class Lane>
  bool take(Lane& lane) {
    if (!lane.ready()) return false;
    auto& descriptor = lane.front();
    auto nbytes = descriptor.nbytes();
    using ringtree::Protocol;
    if (descriptor.protocol() == Protocol::inlined) fuzz::touch(descriptor.payload, nbytes);
    if (descriptor.protocol() == Protocol::copy) fuzz::touch(segment_.outbox(0) + descriptor.location.base, nbytes);
    if (descriptor.protocol() == Protocol::zero_copy)
      fuzz::touch(reinterpret_cast<const std::byte*>(descriptor.location.offset), nbytes);
    lane.take();
    lane.release();
    return true;
  }

  template <class Lane>
  bool send(int peer, Lane& lane, std::vector<Due>& all) {
    if (all.empty() || !lane.room()) return false;
    auto due = all.front();
    all.erase(all.begin());
    if (case_.has(Case::any_sizes) && input_.byte() % 4 == 0) due.nbytes = input_.take<std::uint16_t>() % longest;
    if (due.nbytes > longest) return false;
    if (!lane.opened) {
      if constexpr (std::is_same_v<Lane, ringtree::OutgoingToAll>)
        segment_.open(lane, peer);
      else
        segment_.open(lane, peer, 0);
    }
    auto& descriptor = lane.blank();
    descriptor.print = due.print;
    descriptor.call = 1;
    bool inlined = due.nbytes <= Descriptor::room;
    descriptor.set_protocol(inlined ? ringtree::Protocol::inlined : ringtree::Protocol::copy, due.nbytes);
    if (inlined)
      fuzz::fill(descriptor.payload, due.nbytes);
    else
      descriptor.location = {place(peer, due.nbytes), 0};
    lane.publish();
    return true;
  }

  // Room at whose end the bytes end; what lies around is out of bounds.
  std::uint64_t place(int peer, std::size_t nbytes) {
    auto room = room_ + next_++ % rooms(segment_.layout()) * longest;
    ASAN_POISON_MEMORY_REGION(room, longest);
    ASAN_UNPOISON_MEMORY_REGION(room + longest - nbytes, nbytes);
    fuzz::fill(room + longest - nbytes, nbytes);
    return static_cast<std::uint64_t>(room + longest - nbytes - (serves(peer) ? room_ : segment_.outbox(peer)));
  }

  ringtree::Segment& segment_;
  const Case& case_;
  Input& input_;
  std::byte* room_;
  std::size_t next_ = 0;
  std::vector<ringtree::Incoming<Descriptor>> in_, multicasts_in_;
  std::vector<ringtree::Outgoing<Descriptor>> out_;
  std::vector<ringtree::OutgoingToAll> multicasts_out_;
  std::map<int, std::vector<Due>> due_, due_to_all_;
};

void run(const Case& from, Input& input, std::shared_ptr<PreparedProgram> plan) {
  ringtree::Layout layout(from.ranks(), from.slots(), slot_bytes);
  fuzz::Memory memory(layout.total + Peers::room_bytes(layout));
  ringtree::Segment segment(memory.at(), layout);
  auto behind = segment.outbox(0) + layout.outbox_bytes;
  auto next = static_cast<std::byte*>(memory.at()) + layout.lanes;
  ASAN_POISON_MEMORY_REGION(behind, static_cast<std::size_t>(next - behind));
  ringtree::Endpoint::Options options;
  options.timeout_s = 1;
  options.oversubscribed = true;
  for (int rank = 0; rank < from.ranks(); rank++) options.names.push_back(std::to_string(rank));
  ringtree::Endpoint endpoint(segment, 0, {}, options);
  Peers peers(segment, from, input, static_cast<std::byte*>(memory.at()) + layout.total);
  peers.serve(*plan);
  endpoint.set_relay(&peers);
  ringtree::Interpreter interpreter(endpoint, from.head.flags % 3 ? 1 << 20 : 0, 0);
  // A call's arrays have the bytes that the program touches, and no more.
  auto in_place = from.has(Case::in_place);
  auto longer = std::max(plan->input_bytes, plan->output_bytes);
  std::vector<std::byte> in(in_place ? longer : plan->input_bytes), out(in_place ? 0 : plan->output_bytes);
  in.shrink_to_fit();
  out.shrink_to_fit();
  fuzz::fill(in.data(), in.size());
  fuzz::Impatient hooks;
  try {
    interpreter.run(plan, 1, in.data(), in_place ? in.data() : out.data(), hooks);
    if (interpreter.slots_open() != 0) std::abort();
  } catch (const ringtree::Error&) {
  } catch (const ringtree::Interrupted&) {
  }
  endpoint.set_relay(nullptr);
}

// A program written by hand, as a case.
std::string seed(const programs::Program& program, int ranks, int flags, int size, int window = 0) {
  auto encoded = program.encoded();
  Seed seed;
  seed.small(ranks - 1, 3, flags, ringtree::Dtype::int32, 1, program.scratch, program.chunks, program.chunks,
             program.chunks, encoded.instructions.size(), encoded.operands.size(), window);
  for (int c = 0; c < program.chunks; c++) seed.small(size);
  for (int column = 0; column < 2; column++)
    for (int c = 0; c < program.chunks; c++) seed.small(c * size);
  for (auto& i : encoded.instructions) seed.put(i);
  for (auto& o : encoded.operands) seed.put(o);
  return seed.bytes;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  using Flag = Case::Flag;
  return {seed(programs::one_shot(0, 2), 2, 0, 5),
          seed(programs::one_shot(0, 3), 3, Flag::multicast, 40),
          seed(programs::two_shot(0, 3), 3, Flag::elsewhere | Flag::anywhere, 80),
          seed(programs::ring(0, 3), 3, Flag::any_sizes, 200, 30),
          seed(programs::ring(0, 2), 2, Flag::single_copy | Flag::in_place, 8),
          seed(programs::chain(0, 3, 1, 4), 3, 0, 100),
          seed(programs::flat(0, 4, 0), 4, Flag::multicast, 3),
          seed(programs::barrier(0, 3), 3, Flag::multicast, 0)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t nbytes) {
  Input input(data, nbytes);
  Case from(input);
  ringtree::Layout layout(from.ranks(), from.slots(), slot_bytes);
  ringtree::Limits limits{
      0, from.ranks(), layout.slot_bytes, layout.overflow_bytes, layout.depth, from.has(Case::multicast)};
  std::shared_ptr<PreparedProgram> plan;
  try {
    plan = std::make_shared<PreparedProgram>(bind({from.instructions, from.operands}, from.binding(), limits));
  } catch (const std::invalid_argument&) {
    return 0;
  }
  if (plan->input_bytes < 0 || plan->output_bytes < 0) std::abort();
  bool runs = plan->input_bytes <= most_bytes && plan->output_bytes <= most_bytes &&
              plan->scratch_bytes <= most_bytes && plan->windows <= 64;
  if (runs) run(from, input, plan);
  return 0;
}
