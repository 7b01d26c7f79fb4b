/* One sender, its staging slots and a lane to each of two receivers, for ever: csrc/lanes/lane.h and csrc/lanes/outbox.h in short.
   spin checks that nothing is overwritten that a receiver may still read, that nobody is stuck, and that the sender
   always gets on. `unread` and `busy` are for the assertions only. Each of these must fail:
   -DCARELESS: a slot is taken again when only its last receiver has released it;  -DDEEP: one notice too many in a lane;
   -DGREEDY: registers keep their slots for ever. */

#define RECEIVERS 2
#define SLOTS     2
#ifdef DEEP
#define DEPTH     1
#define ROOM      2
#else
#define DEPTH     2
#define ROOM      DEPTH
#endif
#define M         4 /* counters are modulo M, twice what can be under way */
#define ago(now, then) ((now - then + M) % M)

typedef Lane { byte slot[DEPTH]; bool busy[DEPTH]; byte published; byte taken };
typedef Slot { bool open; bool signalled[RECEIVERS]; byte number[RECEIVERS]; byte unread };

Lane lane[RECEIVERS];
Slot slot[SLOTS];

/* Whether the receiver has given that message back: no more are under way than were sent since. */
#define released(s, r) (!slot[s].signalled[r] || \
                        ago(lane[r].published, lane[r].taken) <= ago(lane[r].published, slot[s].number[r]))
#ifdef CARELESS
#define free(s) (!slot[s].open && released(s, 1))
#else
#define free(s) (!slot[s].open && released(s, 0) && released(s, 1))
#endif

/* With counters that wrap, what is known to be released must be noted before it is too long ago. */
inline note(s, r) {
    if
    :: released(s, r) -> slot[s].signalled[r] = false
    :: else
    fi
}

inline signal(r) {
    ago(lane[r].published, lane[r].taken) < ROOM; /* waits for room */
    d_step {
        assert(!lane[r].busy[lane[r].published % DEPTH]);
        lane[r].busy[lane[r].published % DEPTH] = true;
        lane[r].slot[lane[r].published % DEPTH] = s;
        slot[s].unread++;
        lane[r].published = (lane[r].published + 1) % M;
        slot[s].signalled[r] = true;
        slot[s].number[r] = lane[r].published
    }
}

active proctype sender() {
    byte s;
    do
    :: if
       :: free(0) -> s = 0
       :: free(1) -> s = 1
       fi;
       slot[s].open = true;
       assert(slot[s].unread == 0); /* it is written now */
       if /* and goes to one, to the other, or to both */
       :: signal(0)
       :: signal(1)
       :: signal(0); signal(1)
       fi;
       d_step {
#ifndef GREEDY
           slot[s].open = false;
#endif
           s = 0;
           note(0, 0); note(0, 1); note(1, 0); note(1, 1)
       }
progress: skip
    od
}

/* Takes messages, may hold as many as the lane has, and gives them back in order. */
active [RECEIVERS] proctype receiver() {
    byte r = _pid - 1, next, first;
    do
    :: next != lane[r].published && lane[r].busy[next % DEPTH] -> next = (next + 1) % M /* and reads its slot number */
    :: first != next ->
       d_step {
           slot[lane[r].slot[first % DEPTH]].unread--;
           lane[r].busy[first % DEPTH] = false;
           first = (first + 1) % M;
           lane[r].taken = first
       }
    od
}
