package busstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/services/access/internal/busstate"
)

// healthy returns what three servers answer when nothing is wrong. The first one leads everything.
func healthy() []busstate.ServerState {
	names := []string{"a", "b", "c"}
	var out []busstate.ServerState
	for _, name := range names {
		s := busstate.ServerState{Server: name, Version: "2.15.2", SyncAlways: true, Used: 10}
		s.Cluster = &busstate.ClusterState{Leader: "a"}
		stream := busstate.StreamState{
			Name: "LEDGER", Replicas: 3, Whole: true, LastSequence: 7, Messages: 7, Leader: "a", Group: "g",
		}
		for _, other := range names {
			if other != "a" {
				s.Cluster.Servers = append(s.Cluster.Servers, busstate.Peer{Name: other, Current: true})
				stream.Peers = append(stream.Peers, busstate.Peer{Name: other, Current: true})
			}
		}
		s.Streams = []busstate.StreamState{stream}
		out = append(out, s)
	}
	return out
}

// suspects returns what two looks have in common, where server a leads the group of LEDGER at 7 unless b does.
func suspects(t *testing.T, b string) busstate.Suspects {
	t.Helper()
	look := func() busstate.Groups {
		all := busstate.Groups{}
		answers := map[string]string{"b": b}
		if !strings.Contains(b, "LEADER") {
			answers["a"] = `{"state": "LEADER", "pindex": 7, "committed": 7}`
		}
		for server, is := range answers {
			if is == "" {
				continue
			}
			if err := all.Read(server, "core", []byte(`{"core": {"g": `+is+`}}`)); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	s := look().Suspects()
	s.Clear(look())
	return s
}

// copied adds the copy of the ledger to what three servers answer.
func copied(audit busstate.StreamState) func([]busstate.ServerState) []busstate.ServerState {
	return func(s []busstate.ServerState) []busstate.ServerState {
		audit.Name, audit.Replicas, audit.Leader, audit.Peers = "AUDIT", 3, "a", s[0].Streams[0].Peers
		for n := range s {
			same := busstate.ServerState{Server: s[n].Server, Streams: []busstate.StreamState{audit}}
			s[n].Add([]busstate.ServerState{same, {Server: "z"}})
		}
		return s
	}
}

func TestASuspectThatMovesIsCleared(t *testing.T) {
	look := func(committed, applied int) busstate.Groups {
		all := busstate.Groups{}
		for server, is := range map[string]string{
			"a": fmt.Sprintf(`{"state": "LEADER", "pindex": 100, "committed": %d}`, committed),
			"b": fmt.Sprintf(`{"state": "FOLLOWER", "applied": %d}`, applied),
		} {
			if err := all.Read(server, "core", []byte(`{"core": {"g": `+is+`}}`)); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	for name, test := range map[string]struct {
		next busstate.Groups
		open bool
	}{
		"nothing moves":           {look(50, 40), true},
		"both go on":              {look(51, 41), false},
		"the leader goes on":      {look(51, 40), true},
		"the replica goes on":     {look(50, 41), true},
		"no leader answers now":   {busstate.Groups{}, false},
		"the replica caught up":   {look(50, 50), true},
		"everything is committed": {look(100, 100), false},
	} {
		s := look(50, 40).Suspects()
		if !s.Open() {
			t.Fatal("the first look suspects nothing")
		}
		if s.Clear(test.next); s.Open() != test.open {
			t.Errorf("%s: open %v, want %v: %+v", name, s.Open(), test.open, s)
		}
	}
}

// alone returns what a server that is alone answers.
func alone() []busstate.ServerState {
	return []busstate.ServerState{{
		Server: "garrisond", Version: "2.15.2", SyncAlways: true,
		Streams: []busstate.StreamState{{Name: "LEDGER", Replicas: 1, Leader: "garrisond"}},
	}}
}

// faults are the states of a bus and the alarms that they raise.
var faults = map[string]struct {
	change func(s []busstate.ServerState) []busstate.ServerState
	groups string // what server b answers about the group of LEDGER
	want   []string
}{
	"nothing is wrong": {},
	"a server is away": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[0].Streams[0].Peers[1] = busstate.Peer{Name: "c", Offline: true, Lag: 5}
			return s[:2]
		},
		want: []string{"server-away c", "replica-away LEDGER"},
	},
	"a replica is behind": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[0].Streams[0].Peers[0] = busstate.Peer{Name: "b", Lag: 1001}
			return s
		},
		want: []string{"replica-behind LEDGER"},
	},
	"a replica is a little behind": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[0].Streams[0].Peers[0] = busstate.Peer{Name: "b", Lag: 1000}
			return s
		},
	},
	"nothing leads": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[1].Cluster = &busstate.ClusterState{Servers: []busstate.Peer{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
			s[1].Streams[0].Leader = ""
			return s[1:2]
		},
		want: []string{"server-away a", "server-away c", "no-majority cluster", "stream-without-leader LEDGER"},
	},
	"one of three answers, and leads for a while yet": {
		change: func(s []busstate.ServerState) []busstate.ServerState { return s[:1] },
		want:   []string{"server-away b", "server-away c", "no-majority cluster"},
	},
	"a leader commits nothing": {
		groups: `{"state": "LEADER", "pindex": 9, "committed": 8}`,
		want:   []string{"stream-stalled LEDGER"},
	},
	"a leader has nothing to commit": {groups: `{"state": "LEADER", "pindex": 9, "committed": 9}`},
	"a replica applies nothing": {
		groups: `{"state": "FOLLOWER", "applied": 6}`,
		want:   []string{"replica-stuck LEDGER"},
	},
	"a replica applied all": {groups: `{"state": "FOLLOWER", "applied": 7}`},
	"a replica could not write": {
		groups: `{"state": "FOLLOWER", "applied": 6, "wal_error": {}}`,
		want:   []string{"replica-failed LEDGER"},
	},
	"a replica lacks a message in the middle": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[2].Streams[0].Messages--
			return s
		},
		want: []string{"replicas-differ LEDGER"},
	},
	"a replica was asked a moment earlier": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[2].Streams[0].Messages, s[2].Streams[0].LastSequence = 6, 6
			return s
		},
	},
	"replicas of a stream that forgets": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			for n := range s {
				s[n].Streams[0].Whole = false
			}
			s[2].Streams[0].Messages--
			return s
		},
	},
	"too few replicas": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			s[0].Streams[0].Replicas, s[0].Streams[0].Peers = 1, nil
			s[1].Streams, s[2].Streams = nil, nil
			return s
		},
		want: []string{"few-replicas LEDGER"},
	},
	"an old version among new ones": {
		change: func(s []busstate.ServerState) []busstate.ServerState { s[2].Version = "2.14.9"; return s },
		want:   []string{"version-old c", "versions-differ cluster"},
	},
	"a newer version": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			for i := range s {
				s[i].Version = "2.16.0"
			}
			return s
		},
	},
	"writes are synced later": {
		change: func(s []busstate.ServerState) []busstate.ServerState { s[1].SyncAlways = false; return s },
		want:   []string{"sync-later b"},
	},
	"the storage is nearly full": {
		change: func(s []busstate.ServerState) []busstate.ServerState { s[1].Used, s[1].Limit = 80, 100; return s },
		want:   []string{"storage-nearly-full b"},
	},
	"the storage is full": {
		change: func(s []busstate.ServerState) []busstate.ServerState { s[1].Used, s[1].Limit = 101, 100; return s },
		want:   []string{"storage-nearly-full b"},
	},
	"a disk is full": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			const said = "JetStream stream 'C > LEDGER' write error: write 1.blk: no space left on device"
			for n, errors := range []string{`[]`, `[{"type": "STREAM", "error": "` + said + `"}]`} {
				if err := s[n].ReadHealth([]byte(`{"errors": ` + errors + `}`)); err != nil {
					panic(err)
				}
			}
			return s
		},
		want: []string{"cannot-write b"},
	},
	"the copy of the ledger is complete": {change: copied(busstate.StreamState{LastSequence: 7, Messages: 3})},
	"the copy of the ledger hears nothing": {
		change: copied(busstate.StreamState{LastSequence: 7, Unfed: true}), want: []string{"copy-behind AUDIT"},
	},
	"the copy of the ledger is behind": {
		change: func(s []busstate.ServerState) []busstate.ServerState {
			for n := range s {
				s[n].Streams[0].LastSequence, s[n].Streams[0].Messages = 2000, 2000
			}
			return copied(busstate.StreamState{LastSequence: 7})(s)
		},
		want: []string{"copy-behind AUDIT"},
	},
	"the copy of the ledger lacks facts": {
		change: copied(busstate.StreamState{LastSequence: 7, Missing: 2}), want: []string{"copy-incomplete AUDIT"},
	},
	"a server alone": {change: func([]busstate.ServerState) []busstate.ServerState { return alone() }},
}

func TestEachFaultOfTheBusIsNamed(t *testing.T) {
	tests := faults
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answers := healthy()
			if test.change != nil {
				answers = test.change(answers)
			}
			r := busstate.Describe(answers, suspects(t, test.groups))
			var have []string
			for _, a := range r.GetAlarms() {
				have = append(have, a.GetCause()+" "+a.GetOf())
			}
			slices.Sort(have)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatTheLeaderSaysOfReplicasCounts(t *testing.T) {
	answers := healthy()
	answers[0].Streams[0].LastSequence = 9
	answers[0].Streams[0].Peers[0] = busstate.Peer{Name: "b", Lag: 2}
	answers[1].Streams[0].Peers = nil // a replica knows less
	slices.Reverse(answers)
	s := busstate.Describe(answers, busstate.Suspects{}).GetStreams()[0]
	var have []string
	for _, c := range s.GetCopies() {
		have = append(have, c.String())
	}
	if s.GetLastSequence() != 9 || s.GetLeader() != "a" || len(have) != 3 || s.GetCopies()[1].GetLag() != 2 ||
		s.GetCopies()[1].GetLastSequence() != 7 || s.GetCopies()[1].GetCurrent() {
		t.Errorf("LEDGER at %d, led by %s: %v", s.GetLastSequence(), s.GetLeader(), have)
	}
}

func TestServersThatAreAwayAreHarmlessOnlyWhileAMajorityAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer []busstate.ServerState
		want   map[string][]string // the texts, by their causes
	}{
		"two of three": {healthy()[:2], map[string][]string{
			"server-away": {"the server does not answer; nothing is lost, but fewer servers may fail now"},
		}},
		"the leader alone": {healthy()[:1], map[string][]string{
			"server-away": {"the server does not answer", "the server does not answer"},
			"no-majority": {"1 of 3 servers answer; nothing is written until 2 do"},
		}},
		"one that takes another for the leader yet": {healthy()[1:2], map[string][]string{
			"server-away": {"the server does not answer", "the server does not answer"},
			"no-majority": {"1 of 3 servers answer; nothing is written until 2 do"},
		}},
	} {
		have := map[string][]string{}
		for _, a := range busstate.Describe(test.answer, busstate.Suspects{}).GetAlarms() {
			have[a.GetCause()] = append(have[a.GetCause()], a.GetText())
		}
		if diff := cmp.Diff(test.want, have); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
