package blocks

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	blocknoun "github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// site is five servers on which web 1.0.0 runs. Web 1.1.0 fails everywhere.
type site struct {
	*recordstest.World
	api   *API
	table *table.API
	work  *Work
	log   bytes.Buffer
}

func start(t *testing.T) *site {
	t.Helper()
	s := &site{World: recordstest.New(t)}
	s.api = NewAPI(s.Records, zerolog.Nop())
	s.table = table.New(s.Records, zerolog.Nop(), s.api.Noun())
	s.work = NewWork(s.Records, DefaultBlockAfter, zerolog.New(&s.log))
	s.Fails = code.NotReady
	s.Agent("web")
	s.Image("web", "1.0.0")
	for n := range 5 {
		s.Server(fmt.Sprint("s", n), "")
	}
	s.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.Everywhere()))
	s.Work(nil)
	s.Image("web", "1.1.0")
	return s
}

// fail lets web 1.1.0 fail on the first servers, and has the registry look.
func (s *site) fail(servers int) {
	s.T.Helper()
	on := &intentv1.Selector{}
	for n := range servers {
		on.Servers = append(on.Servers, fmt.Sprint("s", n))
	}
	s.Accept(topology.VerbUpgrade, recordstest.Upgrade("web", "1.1.0", on))
	s.Work(func(i *instancev1.Instance) bool { return i.Wanted.Version == "1.1.0" })
	s.work.Decide(s.T.Context())
}

func (s *site) blocks() []*blockv1.Block {
	return recordstest.Call(s.World, s.table.List, &registryv1.ListRecordsRequest{Noun: "block", Agent: "web"}).Blocks
}

// upgrade returns why an upgrade everywhere is refused; empty when it is not.
func (s *site) upgrade() string {
	up := recordstest.Upgrade("web", "1.1.0", recordstest.Everywhere())
	return s.Decide(topology.VerbUpgrade, up).Refusal.GetCode()
}

func TestABuildThatFailsOnThreeServersIsRefusedEverywhereElseUntilItIsLifted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.fail(2)
	if b := s.blocks(); len(b) != 0 {
		t.Fatalf("after two servers %v is blocked", b)
	}
	s.fail(3)
	b := s.blocks()[0]
	if b.Failed != 3 || len(b.ServerIds) != 3 || b.SetBy != ledger.Registry || b.Build.Image.GetVersion() != "1.1.0" {
		t.Errorf("blocked %v", b)
	}
	shown := 0
	for i := range s.View.InstancesOfAgent("web") {
		server, _ := s.View.Server(i.ServerId)
		if Of(s.Records, i, server.GetSysinfo().GetPlatform()).GetId() == b.Id {
			shown++
		}
	}
	if have := s.upgrade(); have != code.Blocked || shown != 3 {
		t.Errorf("an upgrade everywhere: %q; %d instances have the block, want the three that failed", have, shown)
	}
	lift := func(why string) string {
		caller := bus.Caller{Actor: "alice", Note: why}
		_, err := s.table.Delete(t.Context(), caller, record.Delete(ledger.Block, b.Id[:8], 0))
		return recordstest.CodeOf(err)
	}
	if have := lift(""); have != code.Invalid {
		t.Errorf("lifted without a reason: %q", have)
	}
	if have := [2]string{lift("the disks were full"), lift("again")}; have != [2]string{"", code.NotFound} {
		t.Errorf("lifted twice: %q", have)
	}
	if have := s.upgrade(); have != "" {
		t.Errorf("after that: %q", have)
	}
}

func TestTheBlockOfAFailedImageEndsWithTheImageAndAPersonsStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		block func(*site)
		left  int
	}{
		"failed": {func(s *site) {
			s.fail(2)
			s.fail(3)
		}, 0},
		"by a person": {func(s *site) {
			recordstest.Call(s.World, s.api.Add, &registryv1.AddBlocksRequest{
				Agent: "web", Version: "1.1.0", Reason: "no",
			})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			test.block(s)
			id := s.blocks()[0].Build.Image.Id
			s.work.most = 0 // the registry blocks nothing more by itself
			left := func(change proto.Message) int {
				s.Fact(ledger.Image, id, change)
				if err := s.work.Decide(t.Context()); err != nil {
					t.Fatal(err)
				}
				return len(s.blocks())
			}
			if n := left(&imagev1.Disabled{}); n != 1 {
				t.Errorf("%d blocks while the image is disabled; want 1", n)
			}
			if n := left(&imagev1.Deleted{}); n != test.left {
				t.Errorf("%d blocks once the image is deleted; want %d", n, test.left)
			}
		})
	}
}

func TestABuildThatFailedOnOneServerIsSuspectedUntilItIsBlockedOrNotActive(t *testing.T) {
	t.Parallel()
	s := start(t)
	suspected := func() []*blockv1.Block {
		q := &registryv1.ListRecordsRequest{Noun: "block", Suspected: true}
		return recordstest.Call(s.World, s.table.List, q).Blocks
	}
	s.fail(1)
	all := suspected()
	if len(all) != 1 || all[0].Build.Image.GetVersion() != "1.1.0" || all[0].SetBy != "" ||
		all[0].Reason != "it failed on 1 server and works on 0" || len(s.blocks()) != 0 {
		t.Fatalf("after one server: %v", all)
	}
	add := &registryv1.AddBlocksRequest{Agent: "web", Version: "1.1.0", Reason: "it fails"}
	for already := range uint32(2) {
		r := recordstest.Call(s.World, s.api.Add, add)
		if len(r.Blocks) != 1 || r.Already != already {
			t.Errorf("request %d blocks %v, of which %d were blocked", already, r.Blocks, r.Already)
		}
	}
	if all := suspected(); len(all) != 0 {
		t.Errorf("blocked and still suspected: %v", all)
	}
	caller := bus.Caller{Actor: "alice", Note: "again"}
	if _, err := s.table.Delete(t.Context(), caller, record.Delete(ledger.Block, all[0].Id, 0)); err != nil {
		t.Fatal(err)
	}
	s.fail(2)
	id := all[0].Build.Image.Id
	s.Fact(ledger.Image, id, &imagev1.Disabled{})
	if all := suspected(); len(all) != 0 {
		t.Errorf("the image is disabled and still suspected: %v", all)
	}
}

// A good image must not be blocked because of the bad configuration that came with it.
func TestAnImageIsNotRefusedForTheConfigurationThatCameWithIt(t *testing.T) {
	t.Parallel()
	s := start(t)
	set := func(level string) {
		s.Fact(ledger.Agent, "web", &agentv1.Changed{Agent: &agentv1.Agent{
			Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Metadata: map[string]string{"level": level},
		}})
	}
	set("bad")
	s.fail(3)
	if b := s.blocks(); len(b) != 1 || !blocknoun.Both(b[0].Build) || s.upgrade() != code.Blocked {
		t.Errorf("blocked %v; want image and configuration together", b)
	}
	set("good")
	if have := s.upgrade(); have != "" {
		t.Errorf("the image with another configuration: %q", have)
	}
}

func TestABuildIsBlockedOnceEnoughServersAndAFifthOfThemFailed(t *testing.T) {
	t.Parallel()
	w := NewWork(&records.Records{Now: time.Now}, DefaultBlockAfter, zerolog.Nop())
	for _, c := range []struct {
		failed, failing, working uint32
		rollout                  string
		blocked                  bool
	}{
		{2, 2, 0, "", false},
		{3, 3, 0, "", true},
		{3, 3, 12, "", true},
		{3, 3, 13, "", false},
		{view.MostFailed, view.MostFailed, 4*view.MostFailed + 1, "", false},
		{view.MostFailed, 150, 450, "", true}, // it failed on more than are named
		{1, 1, 0, "r", false},                 // one server alone may be at fault itself
		{2, 2, 1000, "r", true},
	} {
		suspect := &blockv1.Suspect{
			Build: blocknoun.OfConfiguration("web", []byte("digest")), RolloutId: c.rollout,
			ServerIds: make([]string, c.failed), Failing: c.failing, Working: c.working,
		}
		if set := w.Due(suspect); (set != nil) != c.blocked || set != nil && set.Failed < c.failed {
			t.Errorf("%+v: %v", c, set)
		}
	}
}

func TestWithTheMostBlocksASuspectIsCountedOnceAndBlockedOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	s := start(t)
	ids := make([]string, MostBlocks)
	for n := range ids {
		b := blocknoun.OfConfiguration("web", []byte(strconv.Itoa(n)))
		ids[n] = blocknoun.ID(b)
		s.Fact(ledger.Block, ids[n], &blockv1.Block{Build: b, Reason: "it leaks"})
	}
	s.fail(3)
	s.work.Decide(t.Context())
	if n := strings.Count(s.log.String(), "too many blocks"); n != 1 || s.View.BlockCount() != MostBlocks {
		t.Errorf("two looks said %d times that there are too many blocks; want 1: it is remembered", n)
	}
	s.Fact(ledger.Block, ids[0], &blockv1.Lifted{})
	if s.work.Decide(t.Context()); s.View.BlockCount() != MostBlocks {
		t.Error("it is not blocked although there is room")
	}
}

func TestAWrongRequestToBlockIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	type ask = registryv1.AddBlocksRequest
	for name, c := range map[string]struct {
		q    *ask
		want string
	}{
		"no reason":           {&ask{Agent: "web", Version: "1.0.0"}, code.Invalid},
		"nothing":             {&ask{Agent: "web", Reason: "x"}, code.Invalid},
		"two things":          {&ask{Agent: "web", Version: "1", ImageId: "2", Reason: "x"}, code.Invalid},
		"an unknown agent":    {&ask{Agent: "wep", Version: "1.0.0", Reason: "x"}, code.UnknownAgent},
		"an unknown version":  {&ask{Agent: "web", Version: "9.9.9", Reason: "x"}, code.NoMatch},
		"a digest that is no": {&ask{Agent: "web", ConfigurationDigest: "x", Reason: "x"}, code.Invalid},
		"a version":           {&ask{Agent: "web", Version: "1.0.0", Reason: "x"}, ""},
		"a configuration":     {&ask{Agent: "web", ConfigurationDigest: strings.Repeat("ab", 32), Reason: "x"}, ""},
	} {
		if have := recordstest.Code(s.World, s.api.Add, c.q); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
	if b := s.blocks(); len(b) != 2 || b[0].SetBy != "alice" {
		t.Errorf("blocked %v", b)
	}
}
