/* Frames of a pair of ranks by three connections, for ever, each way (csrc/wires/tcp_streams.cc in short): short ones by the
   connection of both, beside credits; a long payload in two parts, by two streams. A frame, or a part, that comes before its
   turn makes its connection wait. spin checks that frames are reported in the order in which they were sent, and whole; that
   each has a place; and that nobody is stuck.
   Each of these must fail:
   -DHASTY: what comes is reported at once;
   -DONCE: a report lets one connection go on that waits, not those after it;
   -DFREE: frames are sent without a credit. */

#define DEPTH(d) (2 - d) /* frames that the peer has places for */
#define M        5       /* turns are modulo M, more than can be under way */

mtype = { brief, part, credit };

/* Direction d leads from rank d to the other. Its connections: 0 is that of short frames, 1 and 2 are streams. */
#define at(d, c) (3 * (d) + (c))
chan way[6] = [5] of { mtype, byte, bit }; /* kind, turn, whether it ends a frame */
byte sent[2];                    /* the next turn that is given */
byte under_way[2];               /* frames without a credit yet */
byte arrived[2];                 /* the turn that is reported next */
byte owed[2];                    /* frames that were reported, and not yet credited */
bool holds[6];                   /* whether the connection waits, with this: */
mtype kind_of[6];
byte turn_of[6];
bit ends_of[6];
bool half[2];                    /* for the assertions: whether the first part of a frame was reported last, */
byte placed[2];                  /* and how many places are taken, until a credit is sent */

#ifdef FREE
#define room(d) (under_way[d] < DEPTH(d) + 1)
#else
#define room(d) (under_way[d] < DEPTH(d))
#endif

inline give(d, c, kind, ends) {
    way[at(d, c)]!kind, sent[d], ends;
    sent[d] = (sent[d] + 1) % M
}

inline report(d, kind, turn, ends) {
    assert(turn == arrived[d]);
    assert(half[d] == (kind == part && ends)); /* a second part after its first, and nothing between them */
    half[d] = !ends;
    arrived[d] = (arrived[d] + 1) % M;
    if
    :: ends -> owed[d]++
    :: else
    fi
}

proctype sender(bit d) {
    do
    :: d_step { room(d) -> give(d, 0, brief, 1); under_way[d]++ }
    :: d_step { d == 0 && room(d) -> give(d, 1, part, 0); give(d, 2, part, 1); under_way[d]++ }
    :: d_step { owed[1 - d] > 0 -> owed[1 - d]--; placed[1 - d]--; way[at(d, 0)]!credit, 0, 1 }
    od
}

proctype receiver(bit d) {
    mtype kind;
    byte turn, c, w;
    bit ends;
    do
    :: atomic {
           if
           :: !holds[at(d, 0)] && nempty(way[at(d, 0)]) -> c = 0
           :: !holds[at(d, 1)] && nempty(way[at(d, 1)]) -> c = 1
           :: !holds[at(d, 2)] && nempty(way[at(d, 2)]) -> c = 2
           fi;
           way[at(d, c)]?kind, turn, ends;
           if
           :: kind == credit -> under_way[1 - d]--
           :: kind != credit ->
              if
              :: ends -> placed[d]++; assert(placed[d] <= DEPTH(d))
              :: else
              fi;
#ifdef HASTY
              report(d, kind, turn, ends)
#else
              if
              :: turn != arrived[d] ->
                 holds[at(d, c)] = true;
                 kind_of[at(d, c)] = kind; turn_of[at(d, c)] = turn; ends_of[at(d, c)] = ends
              :: else ->
                 report(d, kind, turn, ends);
                 w = 0;
                 do
                 :: w < 3 && holds[at(d, w)] && turn_of[at(d, w)] == arrived[d] ->
                    holds[at(d, w)] = false;
                    report(d, kind_of[at(d, w)], turn_of[at(d, w)], ends_of[at(d, w)]);
#ifdef ONCE
                    break
#else
                    w = 0
#endif
                 :: w < 3 && !(holds[at(d, w)] && turn_of[at(d, w)] == arrived[d]) -> w++
                 :: w == 3 -> break
                 od;
                 w = 0
              fi
#endif
           fi;
           kind = 0; turn = 0; ends = 0; c = 0
       }
    od
}

init {
    atomic { run sender(0); run sender(1); run receiver(0); run receiver(1) }
}
