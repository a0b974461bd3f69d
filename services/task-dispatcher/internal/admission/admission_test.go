package admission

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

var online = Server{
	Life:     serverv1.Life_LIFE_ALIVE,
	Presence: serverv1.Presence_PRESENCE_ONLINE,
	Standing: serverv1.Standing_STANDING_ENROLLED,
}

func fleet(agents map[string]Agent) func(string) Agent {
	return func(name string) Agent { return agents[name] }
}

// The servers that differ from one that is online.
var (
	revoked = but(func(s *Server) { s.Standing = serverv1.Standing_STANDING_REVOKED })
	held    = but(func(s *Server) { s.Standing = serverv1.Standing_STANDING_QUARANTINED })
	dying   = but(func(s *Server) { s.Life = serverv1.Life_LIFE_DYING })
	absent  = but(func(s *Server) { s.Presence = serverv1.Presence_PRESENCE_UNSPECIFIED })
	offline = but(func(s *Server) {
		s.Presence, s.Offline = serverv1.Presence_PRESENCE_OFFLINE, time.Unix(1_800_000_000, 0)
	})
	ahead      = but(func(s *Server) { s.Ahead = true })
	duplicated = but(func(s *Server) { s.Duplicated = true })
)

func but(differs func(*Server)) Server {
	s := online
	differs(&s)
	return s
}

// admissions are the tasks of a server, and why each waits.
var admissions = []struct {
	name   string
	server Server
	tasks  []Task
	want   []string // part of each reason; empty means that it is admitted
}{
	{"alone on an online server", online, []Task{{ID: "1", Agent: "app"}}, []string{""}},
	{"the server never came online", absent, []Task{{ID: "1", Agent: "app"}}, []string{"not online"}},
	{
		"the server is offline",
		offline,
		[]Task{{ID: "1", Agent: "app"}},
		[]string{"server offline since 2027-01-15T08:00:00Z"},
	},
	{"the server is revoked", revoked, []Task{{ID: "1", Agent: "app"}}, []string{"garrison server enroll"}},
	{"the server is quarantined", held, []Task{{ID: "1", Agent: "app"}}, []string{"quarantined"}},
	{
		"the server is ahead of the ledger",
		ahead,
		[]Task{{ID: "1", Agent: "app"}},
		[]string{"garrison restore"},
	},
	{
		"two machines use the server's identity",
		duplicated,
		[]Task{{ID: "1", Agent: "app", Removes: true}},
		[]string{"two machines"},
	},
	{"the server is not enrolled", Server{}, []Task{{ID: "1", Agent: "app"}}, []string{"not enrolled"}},
	{
		"the server is dying",
		dying,
		[]Task{{ID: "1", Agent: "app"}, {ID: "2", Agent: "top", Removes: true}},
		[]string{"dying", ""},
	},
	{"what it brings is outdated", online, []Task{{ID: "1", Agent: "app", Outdated: true}}, []string{"outdated"}},
	{
		"an older one of the same agent is under way",
		online,
		[]Task{{ID: "1", Agent: "app", UnderWay: true}, {ID: "2", Agent: "app"}},
		[]string{"", "task 1"},
	},
	{"two refreshes", online, []Task{{ID: "1", Queued: 1}, {ID: "2", Queued: 2}}, []string{"", "task 1"}},
	{
		"a refresh behind what is fetched ahead",
		online,
		[]Task{{ID: "1", Queued: 1, Ahead: true}, {ID: "2", Queued: 2}, {ID: "3", Queued: 3, Ahead: true}},
		[]string{"", "", "task 1"},
	},
	{
		"a refresh beside a change",
		online,
		[]Task{{ID: "1"}, {ID: "2", Agent: "top", UnderWay: true}},
		[]string{"", ""},
	},
	{
		"a lower tier first",
		online,
		[]Task{{ID: "1", Agent: "top"}, {ID: "2", Agent: "base", UnderWay: true}},
		[]string{"base of tier 1", ""},
	},
	{
		"a lower tier that is still to be opened",
		online,
		[]Task{{ID: "1", Agent: "top"}, {Agent: "base"}},
		[]string{"base of tier 1", ""},
	},
	{
		"what is needed first, whatever its tier",
		online,
		[]Task{{ID: "1", Agent: "app"}, {ID: "2", Agent: "lib"}},
		[]string{"lib, which it needs", ""},
	},
	{
		"what is needed through another",
		online,
		[]Task{{ID: "1", Agent: "far"}, {ID: "2", Agent: "lib"}},
		[]string{"lib, which it needs", ""},
	},
	{"what is needed counts as of the tier of who needs it", online,
		[]Task{
			{ID: "1", Agent: "app"},
			{ID: "2", Agent: "top"},
			{ID: "3", Agent: "lib"},
		}, []string{"lib", "tier", ""}},
	{
		"an outdated task holds up no other",
		online,
		[]Task{{ID: "1", Agent: "app"}, {ID: "2", Agent: "lib", Outdated: true}},
		[]string{"", "outdated"},
	},
	{
		"agents that need each other go in the queue's order",
		online,
		[]Task{{ID: "1", Agent: "x", Queued: 2}, {ID: "2", Agent: "y", Queued: 1}},
		[]string{"y, which it needs", ""},
	},
	{
		"who needs it is removed first",
		online,
		[]Task{{ID: "1", Agent: "lib", Removes: true}, {ID: "2", Agent: "app", Removes: true}},
		[]string{"removal of agent app", ""},
	},
	{
		"higher tiers are removed first",
		online,
		[]Task{{ID: "1", Agent: "base", Removes: true}, {ID: "2", Agent: "top", Removes: true}},
		[]string{"removal of agent top", ""},
	},
	{
		"a removal and a change of another tier",
		online,
		[]Task{{ID: "1", Agent: "base", Removes: true}, {ID: "2", Agent: "top"}},
		[]string{"", ""},
	},
}

func TestATaskIsAdmittedOrHasAReasonToWait(t *testing.T) {
	agents := fleet(map[string]Agent{
		"base": {Tier: 1}, "app": {Tier: 2, Dependencies: []string{"lib"}}, "lib": {Tier: 5}, "top": {Tier: 3},
		"x": {Dependencies: []string{"y"}}, "y": {Dependencies: []string{"x"}},
		"far": {Tier: 1, Dependencies: []string{"middle"}}, "middle": {Dependencies: []string{"lib"}},
	})
	for _, c := range admissions {
		t.Run(c.name, func(t *testing.T) {
			for n, got := range Decide(c.server, c.tasks, agents) {
				if (got == "") != (c.want[n] == "") || !strings.Contains(got, c.want[n]) {
					t.Errorf("task %d: %q, want %q", n+1, got, c.want[n])
				}
			}
		})
	}
}

// Whatever the tiers and dependencies are, one task can always be admitted: no order waits for itself.
func TestNoOrderDeadlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		agents := map[string]Agent{}
		for _, n := range names {
			agents[n] = Agent{
				Tier:         rapid.Uint32Range(0, 3).Draw(t, "tier"),
				Dependencies: rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "needs"),
			}
		}
		var tasks []Task
		for n, name := range names {
			tasks = append(tasks,
				Task{ID: name, Agent: name, Queued: uint64(n + 1), Removes: rapid.Bool().Draw(t, "removes")})
		}
		for len(tasks) > 0 {
			reasons, left := Decide(online, tasks, fleet(agents)), []Task{}
			for n, r := range reasons {
				if r != "" {
					left = append(left, tasks[n])
				}
			}
			if len(left) == len(tasks) {
				t.Fatalf("all wait: %v %q", tasks, reasons)
			}
			tasks = left
		}
	})
}

func TestTheLimitTakesTheOldestThatFit(t *testing.T) {
	ready := slices.Values([]string{"a", "b", "c", "d"})
	for _, c := range []struct {
		name                        string
		underWay, concurrency, most int
		want                        string
	}{
		{"all places free", 0, 10, 10, "abcd"}, {"two places free", 3, 5, 10, "ab"}, {"no place free", 5, 5, 10, ""},
		{"more than allowed are under way", 9, 5, 10, ""}, {"few at once", 0, 10, 3, "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(Limit(ready, c.underWay, c.concurrency, c.most), ""); got != c.want {
				t.Errorf("took %q, want %q", got, c.want)
			}
		})
	}
}
