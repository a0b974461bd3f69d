package server

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const readme = "../../README.md"

func TestThePictureInTheReadmeIsTheTable(t *testing.T) {
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "```mermaid\n")
	have, after, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("README.md has no picture")
	}
	want := Life.Mermaid(unknown)
	if have == want {
		return
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(readme, []byte(before+"```mermaid\n"+want+"```"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the picture is out of date; run the test with UPDATE=1:\n%s", cmp.Diff(have, want))
}

func TestEveryPlaceThatIsReachedHasARow(t *testing.T) {
	if err := Life.Check(); err != nil {
		t.Error(err)
	}
}

// at gives a server in a place of its life.
func at(where string) *serverv1.Server {
	if where == unknown {
		return nil
	}
	return &serverv1.Server{Id: "s", Life: lives[where], TokenSha256: []byte{1}, PublicKey: "key"}
}

func TestEveryFactInEveryPlaceMovesAsTheTableSaysOrChangesNothing(t *testing.T) {
	for _, where := range []string{unknown, invited, alive, dying, dead} {
		for _, k := range ledger.Kinds {
			if k.Noun != ledger.Server {
				continue
			}
			before := at(where)
			f := ledger.Fact{Noun: ledger.Server, Key: "s", Body: k.Body, At: time.Unix(1, 0)}
			after, fit := Apply(proto.CloneOf(before), f)
			next, want := Life.Next(where, k.Name)
			switch {
			case fit != want:
				t.Errorf("%s in %s fits: %v; want %v", k.Name, where, fit, want)
			case !fit && where != unknown && !proto.Equal(before, after):
				t.Errorf("%s does not fit in %s but changed it: %v", k.Name, where, after)
			case fit && next == forgotten && after != nil:
				t.Errorf("%s in %s leaves %v; want nothing", k.Name, where, after)
			case fit && next != forgotten && place(after) != next:
				t.Errorf("%s in %s leads to %s; want %s", k.Name, where, place(after), next)
			}
		}
	}
}

func TestADeadServerHasNothingThatOpensADoor(t *testing.T) {
	s, _ := Apply(at(alive), ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Dead{IntentId: "i", Lost: true}, At: time.Unix(1, 0)})
	if s.PublicKey != "" || s.TokenSha256 != nil || s.Presence != serverv1.Presence_PRESENCE_UNSPECIFIED {
		t.Errorf("a dead server keeps %v", s)
	}
}

func TestPresenceIsJudgedByTheLastBeat(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	server := func(life serverv1.Life, p serverv1.Presence) *serverv1.Server {
		return &serverv1.Server{Life: life, Presence: p, BootId: "boot"}
	}
	const online, offline = serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_OFFLINE
	on, off := &serverv1.Online{BootId: "boot"}, &serverv1.Offline{}
	for _, c := range []struct {
		name  string
		s     *serverv1.Server
		heard Heard
		now   int
		grace int
		want  proto.Message
	}{
		{"the first beat", server(serverv1.Life_LIFE_ALIVE, 0), Heard{At: start, BootID: "boot"}, 1, 0, on},
		{"a beat of one that was offline", server(serverv1.Life_LIFE_ALIVE, offline), Heard{At: start, BootID: "boot"}, 1, 0, on},
		{"one more beat", server(serverv1.Life_LIFE_ALIVE, online), Heard{At: start, BootID: "boot"}, 1, 0, nil},
		{"a beat of a new boot", server(serverv1.Life_LIFE_ALIVE, online), Heard{At: start, BootID: "next"}, 1, 0, &serverv1.Online{BootId: "next"}},
		{"silence just short of the limit", server(serverv1.Life_LIFE_ALIVE, online), Heard{At: start, BootID: "boot"}, 14, 0, nil},
		{"silence at the limit", server(serverv1.Life_LIFE_ALIVE, online), Heard{At: start, BootID: "boot"}, 15, 0, off},
		{"silence of one that is offline", server(serverv1.Life_LIFE_ALIVE, offline), Heard{At: start, BootID: "boot"}, 99, 0, nil},
		{"silence within the grace", server(serverv1.Life_LIFE_ALIVE, online), Heard{}, 10, 15, nil},
		{"silence after the grace", server(serverv1.Life_LIFE_ALIVE, online), Heard{}, 15, 15, off},
		{"one that was never heard", server(serverv1.Life_LIFE_ALIVE, 0), Heard{}, 99, 0, nil},
		{"a beat of one that is dying", server(serverv1.Life_LIFE_DYING, 0), Heard{At: start, BootID: "boot"}, 1, 0, on},
		{"a beat of one that is dead", server(serverv1.Life_LIFE_DEAD, 0), Heard{At: start, BootID: "boot"}, 1, 0, nil},
		{"a beat of one that is only invited", server(serverv1.Life_LIFE_INVITED, 0), Heard{At: start, BootID: "boot"}, 1, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := Judge(c.s, c.heard, Watch{Now: after(c.now), Beat: 5 * time.Second, Grace: after(c.grace)})
			if diff := cmp.Diff(c.want, have, protocmp.Transform(), protocmp.IgnoreFields(&serverv1.Offline{}, "last_beat_at")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
