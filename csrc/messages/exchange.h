// Point to point: moves messages through the pipes between ranks. Any number at once, none waiting for another.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "interpreter/received.h"
#include "interpreter/recorder.h"
#include "messages/matching.h"
#include "messages/progress_thread.h"
#include "waits/background.h"
#include "waits/wait.h"

namespace ringtree {

class Exchange : Background, ProgressThread::Duty {
 public:
  explicit Exchange(Endpoint& endpoint);
  ~Exchange() override;

  // Waits until no thread is in here any more, which is soon once the endpoint is stopping. No operation's memory is
  // touched from then on.
  void close();

  // Returns when all are complete. Several threads may be here at once: each moves the messages of all.
  void run(std::span<Operation> operations, double timeout_s, Hooks& hooks);

  // Begins an operation and returns its number. Its memory must stay until it is complete. It goes on by itself.
  std::uint64_t post(Operation operation);
  // Whether it has ended, well or (the group has failed) badly. Moves messages; never waits.
  bool test(std::uint64_t number);
  // Waits until all of these are complete, or (`first`) one of them is, and returns which: the lowest position in the
  // list. -1: `timeout_s` passed first; below 0 it is the endpoint's own limit, which throws.
  int wait(std::span<const std::uint64_t> numbers, bool first, double timeout_s, Hooks& hooks);
  // The envelope of a complete operation: of a receive, the message's.
  Envelope status(std::uint64_t number);
  // Forgets it, if it is complete; false otherwise.
  bool drop(std::uint64_t number);

  // The earliest message that has begun to arrive and that a receive posted now would take. Waits as wait() does.
  // `may_have_left`: that who could send has left the group in order is no error of the wait.
  std::optional<Envelope> probe(int source, int tag, double timeout_s, Hooks& hooks, bool may_have_left = false);

  // Records messages from now on: anew, at most `most` events. 0 ends it.
  void record(std::size_t most);
  // The recording, which its reader keeps; nullptr where nothing was recorded.
  std::shared_ptr<const Recorder> recorder();

  std::vector<Received> received;  // from each peer, and taken by a receive; written with the mutex held

 private:
  struct Peer {
    Peer(Outgoing<Piece> out, Incoming<Piece> in) : out(out), in(in) {}
    Outgoing<Piece> out;
    Incoming<Piece> in;
    std::deque<Operation*> sends;
    Operation* into = nullptr;                // where the message that is arriving goes,
    UnexpectedMessage* unexpected = nullptr;  // one of the two
    bool refused = false;                     // what arrives next has no receive to go to: the group has failed
    std::uint64_t sent = 0, came = 0;         // messages so far
  };
  using Kept = std::shared_ptr<Operation>;
  class Awaited;
  struct Visit;
  struct Wanted;

  void check_open() const;
  void take_back(std::span<Operation> operations, const std::string& why = "");
  void help_others();
  void start_progress_thread();
  Kept find(std::uint64_t number);
  int await(Awaited& awaited, Endpoint::Patience patience, double limit_s, Hooks& hooks);
  bool lost(Awaited& awaited);

  // deliver.cc; all with the mutex held
  void begin(Operation& operation);
  bool withdraw(Operation& operation);
  bool progress();
  bool send_some(int to);
  bool receive_some(int from);
  bool open(int from, const Piece& piece);
  void send_to_self(Operation& send);
  void hand(UnexpectedMessage& unexpected, Operation& receive);
  bool give(const Envelope& envelope, Operation& receive);
  void acknowledge(const Envelope& envelope);
  // For a rank that leaves: moves messages until its answers are sent, or for so long. Without the mutex.
  void end_acknowledgements(std::int64_t limit_ns);
  void finish(Operation& operation);
  bool recorded() const { return most_events_.load(std::memory_order_relaxed) > 0; }
  void note(const Operation& operation);
  void ring(int peer) {
    endpoint_.ring(peer);
    endpoint_.wake_progress_thread(peer);
  }
  bool advance() noexcept override;
  bool move() noexcept override;
  ProgressThread::Need need() const noexcept override;
  bool move_all(std::unique_lock<std::mutex>& lock) noexcept;

  Endpoint& endpoint_;
  std::mutex mutex_;  // guards all below
  bool closed_ = false, enlisted_ = false;
  std::vector<Peer> peers_;
  Matching matching_;
  std::unordered_map<std::uint64_t, Kept> posted_;
  std::vector<std::unique_ptr<Operation>> acknowledgements_;  // on their way
  std::uint64_t issued_ = 0;
  std::atomic<int> unfinished_ = 0;           // of the posted
  std::atomic<int> visitors_ = 0;             // threads that wait here
  std::int64_t checked_ns_ = 0;               // of the last liveness check of callers that never wait
  std::atomic<std::size_t> most_events_ = 0;  // 0: nothing is recorded
  std::shared_ptr<Recorder> recorder_;
  int waiting_ = 0;                               // threads that wait for a message, as far as that is recorded
  std::uint64_t waited_since_ = 0, arrived_ = 0;  // begin of a thread's wait; arrival of the last message
  ProgressThread progress_thread_;
};

}  // namespace ringtree
