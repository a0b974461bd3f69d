package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

func TestWhatRunsThereIsInstalledWhereTheServerJoinedAndLacksIt(t *testing.T) {
	alive, invited, dying := serverv1.Life_LIFE_ALIVE, serverv1.Life_LIFE_INVITED, serverv1.Life_LIFE_DYING
	s := site{
		servers: map[string]*serverv1.Server{
			"1": {Name: "one", Life: alive}, "2": {Name: "two", Life: alive}, "3": {Name: "three", Life: invited},
			"4": {Name: "four", Life: dying}, "5": {Name: "five", Life: alive}, "6": {Name: "six", Life: alive},
		},
		wanted: map[string]map[string]string{"net": {"2": "1.4.0", "5": "2.0.0", "6": ""}},
		images: map[string][]string{"net": {"1.4.0", "2.0.0"}},
	}
	out := s.plan([]triton.Placed{
		{Server: "1", Agent: "net", Version: "1.4.0", UUID: "u-1"}, {Server: "2", Agent: "net", Version: "1.4.0"},
		{Server: "3", Agent: "net", Version: "1.4.0"}, {Server: "4", Agent: "net", Version: "1.4.0"},
		{Server: "5", Agent: "net", Version: "1.4.0"}, {Server: "6", Agent: "net", Version: "1.4.0"},
		{Server: "unknown", Agent: "net", Version: "1.4.0"}, {Server: "1", Agent: "old", Version: "1"},
		{Server: "2", Agent: "old"},
	})
	if diff := cmp.Diff(map[[2]string][]string{{"net", "1.4.0"}: {"1"}}, out.due); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, r := range out.shown {
		got = append(got, r.Action+" "+r.Name+" "+r.After+" "+r.Note)
	}
	for _, r := range out.skipped {
		got = append(got, "skip "+r.Name+" "+r.Reason)
	}
	const later = "installed by this import once the server has joined"
	want := []string{
		"install one/net 1.4.0 triton:u-1", "expect three/net 1.4.0 " + later, "expect unknown/net 1.4.0 " + later,
		"skip four/net the server is dying",
		"skip five/net 2.0.0 is wanted here, and 1.4.0 runs there; an import changes no version",
		"skip six/net it is being removed",
		"skip one/old the catalog has no image old@1; garrison image build FILE --triton MANIFEST makes one",
		"skip two/old its version is not known: the dump lacks the manifest of its image",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	asks := out.asks()
	if len(asks) != 1 || asks[0].GetIntent().GetInstall().GetImage().GetVersion() != "1.4.0" ||
		asks[0].GetIntent().GetInstall().GetOrigins()["1"] != "triton:u-1" {
		t.Errorf("%v", asks)
	}
}

func TestAnImportForManyServersAtOnceIsRefused(t *testing.T) {
	i := installs{due: map[[2]string][]string{}}
	for n := range servedByIntent + 1 {
		i.due[[2]string{"net", "1.4.0"}] = append(i.due[[2]string{"net", "1.4.0"}], fmt.Sprint(n))
	}
	if err := i.check(false); err == nil || !strings.Contains(err.Error(), "install net on 501 servers at once") {
		t.Errorf("%v", err)
	}
	if err := i.check(true); err != nil {
		t.Error(err)
	}
	n := 0
	for _, q := range i.asks() {
		n += len(q.GetIntent().GetInstall().GetOn().GetServers())
	}
	if n != servedByIntent+1 || len(i.asks()) != 2 {
		t.Errorf("%d servers in %d intents", n, len(i.asks()))
	}
}

// What the dump knows of an instance comes with its install, or by a configuration where it runs and never had own
// values. Instances with the same values share an intent, and an intent has not too many bytes.
func TestOwnValuesComeWithTheInstallOrToAnInstanceWithoutAny(t *testing.T) {
	s := site{
		servers: map[string]*serverv1.Server{}, images: map[string][]string{"net": {"1"}},
		wanted: map[string]map[string]string{"net": {"b": "1", "c": "1", "d": "1"}},
		own:    map[[2]string]bool{{"net", "d"}: true},
	}
	var placed []triton.Placed
	for _, id := range []string{"a", "b", "c", "d"} {
		s.servers[id] = &serverv1.Server{Name: id, Life: serverv1.Life_LIFE_ALIVE}
		placed = append(placed, triton.Placed{
			Server: id, Agent: "net", Version: "1", Own: map[string]string{"role": "head"},
		})
	}
	out := s.plan(placed)
	install := out.asks()[0].GetIntent().GetInstall()
	if len(out.asks()) != 1 || len(install.GetOwn()) != 1 || install.GetOwn()["a"].GetValues()["role"] != "head" {
		t.Errorf("%v", out.asks())
	}
	configure := out.configures()[0].GetIntent().GetConfigure()
	if len(out.configures()) != 1 || configure.IfRevision == nil || configure.GetIfRevision() != 0 ||
		!slices.Equal(configure.GetOn().GetServers(), []string{"b", "c"}) || configure.GetSet()["role"] != "head" {
		t.Errorf("%v", out.configures())
	}
	large := map[string]string{"text": strings.Repeat("x", bytesByIntent/2)}
	for _, id := range []string{"b", "c"} {
		out.due[[2]string{"net", "1"}] = append(out.due[[2]string{"net", "1"}], id)
		out.own[[2]string{"net", id}] = large
	}
	if n := len(out.asks()); n != 2 {
		t.Errorf("%d intents; want 2", n)
	}
}
