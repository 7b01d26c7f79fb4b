/* A lane to another host, for ever: a sender with staging slots, its bridge, a wire, the receiver's bridge with staging of its own,
   a receiver (csrc/bridge/bridge.cc in short). spin checks that neither a slot nor staging is overwritten that may still be
   read, and that nobody is stuck, though up to OWED messages that were given back may never be reported to the sender.
   Each of these must fail:
   -DEARLY: the sender's bridge gives a message back when the wire has it, not when the receiver has;
   -DSTINGY: as many may be owed as there are slots. */

#define SLOTS 2
#define DEPTH 2
#ifdef STINGY
#define OWED  2
#else
#define OWED  1
#endif
#define M     8 /* counters are modulo M, more than can be under way */
#define ago(now, then) ((now - then + M) % M)

byte number[SLOTS];              /* the message that a slot went out as; */
bool sent[SLOTS];                /* whether it went out */
byte unread[SLOTS];              /* for the assertions only: who may still read the slot */
byte published, taken;           /* of the lane on the sender's host */
byte arrived, released;          /* of the lane on the receiver's host */
bool busy[DEPTH];                /* staging there that the receiver may read */
byte credited;                   /* how much of `released` the sender's bridge knows of */
byte entry[DEPTH];               /* the slot of a message in the sender's lane */
chan wire = [DEPTH] of { byte, byte }; /* message, slot */
chan back = [1] of { byte };

#define free(s) (!sent[s] || ago(published, taken) <= ago(published, number[s]))

inline note(s) {
    if
    :: free(s) -> sent[s] = false
    :: else
    fi
}

active proctype sender() {
    byte s;
    do
    :: if
       :: free(0) -> s = 0
       :: free(1) -> s = 1
       fi;
       assert(unread[s] == 0); /* it is written now */
       ago(published, taken) < DEPTH; /* waits for room */
       d_step {
           entry[published % DEPTH] = s;
           unread[s]++;
           published = (published + 1) % M;
           number[s] = published;
           sent[s] = true;
           s = 0
       }
       d_step { note(0); note(1) }
    od
}

active proctype sending_bridge() {
    byte next, s, count;
    do
    :: next != published && nfull(wire) ->
       d_step {
           s = entry[next % DEPTH];
           next = (next + 1) % M;
           wire!next, s;
#ifdef EARLY
           taken = next;
#endif
           s = 0
       }
    :: back?count ->
#ifndef EARLY
       taken = count;
#endif
       count = 0
    od
}

/* The network reads the slot when it sends, which may be long after it was asked to. */
active proctype receiving_bridge() {
    byte m, s;
    do
    :: wire?m, s ->
       d_step {
           unread[s]--;
           assert(m == (arrived + 1) % M);
           assert(!busy[arrived % DEPTH]);
           busy[arrived % DEPTH] = true;
           arrived = m;
           m = 0; s = 0
       }
    :: ago(released, credited) > 0 && nfull(back) -> /* with a frame that goes anyway, or at last when it must */
       if
       :: d_step { credited = released; back!credited }
       :: ago(released, credited) <= OWED -> goto owing
       fi
    od;
owing:
    do
    :: wire?m, s ->
       d_step {
           unread[s]--;
           assert(m == (arrived + 1) % M);
           assert(!busy[arrived % DEPTH]);
           busy[arrived % DEPTH] = true;
           arrived = m;
           m = 0; s = 0
       }
    :: ago(released, credited) > OWED && nfull(back) -> d_step { credited = released; back!credited }
    od
}

/* Takes messages, may hold as many as the lane has, and gives them back in order. */
active proctype receiver() {
    byte next;
    do
    :: next != arrived && ago(next, released) < DEPTH -> next = (next + 1) % M
    :: next != released ->
       d_step {
           busy[released % DEPTH] = false;
           released = (released + 1) % M
       }
    od
}
