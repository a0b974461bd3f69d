package lobby

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestWhoKnocksWithManyKeysPushesOutItsOwn(t *testing.T) {
	b, honest := NewBook(), netip.MustParseAddr("10.0.0.1")
	for n := range 10 {
		b.Note(Waiting{PublicKey: fmt.Sprintf("honest-%d", n), Address: honest}, noon)
	}
	for n := range 10 * Most {
		at := noon.Add(time.Duration(n) * time.Millisecond)
		b.Note(Waiting{PublicKey: fmt.Sprintf("fake-%d", n), Address: netip.MustParseAddr("10.6.6.6")}, at)
	}
	all, overflowed := b.All(noon.Add(time.Minute))
	if len(all) != Most || !overflowed || b.of[honest] != 10 {
		t.Errorf("%d wait, %d of them honest, overflowed %v", len(all), b.of[honest], overflowed)
	}
	if all, _ := b.All(noon.Add(time.Hour)); len(all) != 0 || len(b.of) != 0 {
		t.Errorf("%d wait an hour later", len(all))
	}
}

func TestARepeatedRequestChangesOnlyWhenAndWhereTheMachineWasHeard(t *testing.T) {
	b := NewBook()
	fresh := b.Note(Waiting{PublicKey: "a", Address: netip.MustParseAddr("10.0.0.1")}, noon)
	again := b.Note(Waiting{PublicKey: "a", Address: netip.MustParseAddr("10.0.0.2")}, noon.Add(time.Second))
	all, _ := b.All(noon.Add(time.Second))
	if !fresh || again || len(all) != 1 || len(b.of) != 1 {
		t.Fatalf("fresh %v, again %v, %d wait", fresh, again, len(all))
	}
	if w := all[0]; !w.First.Equal(noon) || !w.Last.Equal(noon.Add(time.Second)) || w.Address.String() != "10.0.0.2" {
		t.Errorf("%+v", w)
	}
}

func TestAKeyIsAdmittedOnlyAsTheServerItBecame(t *testing.T) {
	alive := func(key string, standing serverv1.Standing) *serverv1.Server {
		return &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, PublicKey: key, Standing: standing}
	}
	dead := &serverv1.Server{Life: serverv1.Life_LIFE_DEAD, PublicKey: "k"}
	rejected := &lobbyv1.Rejection{Until: timestamppb.New(noon.Add(time.Hour))}
	for name, c := range map[string]struct {
		server   *serverv1.Server
		rejected *lobbyv1.Rejection
		at       time.Time
		code     string
		admitted bool
	}{
		"undecided":         {nil, nil, noon, "", false},
		"accepted":          {alive("k", serverv1.Standing_STANDING_ENROLLED), nil, noon, "", true},
		"accepted later":    {alive("k", serverv1.Standing_STANDING_ENROLLED), rejected, noon, "", true},
		"it has another":    {alive("l", serverv1.Standing_STANDING_ENROLLED), nil, noon, "USED_KEY", false},
		"dead":              {dead, nil, noon, "USED_KEY", false},
		"revoked":           {alive("k", serverv1.Standing_STANDING_REVOKED), nil, noon, "SERVER_REVOKED", false},
		"rejected":          {nil, rejected, noon, "LOBBY_REJECTED", false},
		"rejected long ago": {nil, rejected, noon.Add(2 * time.Hour), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, admitted := Decide(c.server, c.rejected, "k", c.at)
			if refusal.GetCode() != c.code || admitted != c.admitted {
				t.Errorf("%v, admitted %v", refusal, admitted)
			}
		})
	}
}

func TestMachinesAreSelectedByWhatTheyAreAndWhereTheyAre(t *testing.T) {
	w := Waiting{
		PublicKey: "k", Fingerprint: "ABCD-EFGH", Address: netip.MustParseAddr("10.1.2.3"),
		Sysinfo: &serverv1.Sysinfo{Hostname: "web-1", Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	}
	is := func(field string, operator intentv1.Operator, values ...string) []*intentv1.Condition {
		return []*intentv1.Condition{{Field: field, Operator: operator, Values: values}}
	}
	in, not := intentv1.Operator_OPERATOR_IN, intentv1.Operator_OPERATOR_NOT_IN
	for name, c := range map[string]struct {
		where []*intentv1.Condition
		want  bool
		code  string
	}{
		"all":              {nil, true, ""},
		"os":               {is("os", in, "linux"), true, ""},
		"another os":       {is("os", in, "illumos"), false, ""},
		"a range":          {is("address", in, "10.0.0.0/8"), true, ""},
		"not in a range":   {is("address", not, "10.0.0.0/8"), false, ""},
		"its address":      {is("address", in, "10.1.2.3"), true, ""},
		"a fingerprint":    {is("fingerprint", in, "abcdefgh"), true, ""},
		"a label":          {is("label.rack", in, "a"), false, "BAD_SELECTOR"},
		"no range":         {is("address", in, "here"), false, "BAD_SELECTOR"},
		"an ordered range": {is("address", intentv1.Operator_OPERATOR_LESS, "10.0.0.0/8"), false, "BAD_SELECTOR"},
	} {
		t.Run(name, func(t *testing.T) {
			match, refusal := Matcher(view.New(), c.where)
			if refusal.GetCode() != c.code || refusal == nil && match(w) != c.want {
				t.Errorf("refusal %v", refusal)
			}
		})
	}
}
