package topology_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// oldBus returns a bus whose streams change has had its way with, with a message in INTENTS.
func oldBus(t *testing.T, change func(*jetstream.StreamConfig)) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(bustest.StartEmpty(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range topology.Streams(1) {
		change(&s)
		if _, err := js.CreateStream(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "garrison.intent.refresh.ann.id", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	return js
}

func config(t *testing.T, js jetstream.JetStream, stream string) (jetstream.StreamConfig, uint64) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config, s.CachedInfo().State.Msgs
}

var always = topology.Bus{Replicas: 1, SyncsAlways: true}

func TestABusFromBeforeThereWereNumbersIsBroughtForward(t *testing.T) {
	js := oldBus(t, func(*jetstream.StreamConfig) {})
	plan, err := topology.Look(t.Context(), js, always)
	unnumbered := plan.From == (topology.Numbers{Contract: 1})
	if err != nil || !unnumbered || plan.New || len(plan.Steps) != len(topology.Steps) {
		t.Fatalf("planned %+v (%v), want every step from number 0", plan, err)
	}
	if c, _ := config(t, js, topology.Ledger); c.Metadata[topology.MetadataNumber] != "" {
		t.Fatal("a look changed the bus")
	}
	if _, err := topology.Ensure(t.Context(), js, always); err != nil {
		t.Fatal(err)
	}
	c, _ := config(t, js, topology.Ledger)
	number, sync := c.Metadata[topology.MetadataNumber], c.Metadata[topology.MetadataSync]
	if number != strconv.Itoa(topology.Number) || sync != topology.SyncAlways {
		t.Errorf("the ledger's metadata is %v", c.Metadata)
	}
	if _, n := config(t, js, topology.Intents); n != 1 {
		t.Errorf("%d intents, want the one that was there", n)
	}
	if plan, err := topology.Look(t.Context(), js, always); err != nil || len(plan.Changes)+len(plan.Steps) != 0 {
		t.Errorf("planned again: %+v (%v), want nothing", plan, err)
	}
}

func TestDeadLettersMoveToTheStreamThatIsNamedAfterThem(t *testing.T) {
	for name, interrupted := range map[string]bool{"at once": false, "after an interruption": true} {
		t.Run(name, func(t *testing.T) {
			js := oldBus(t, func(s *jetstream.StreamConfig) {
				if s.Name == topology.DeadLetter {
					s.Name, s.Subjects = "QUARANTINE", []string{"garrison.quarantine.*"}
				}
			})
			for i := range 3 {
				m := nats.NewMsg("garrison.quarantine.INTENTS")
				m.Header.Set("Garrison-Reason", "it is bad")
				m.Data = []byte{byte(i)}
				if _, err := js.PublishMsg(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			if interrupted {
				topology.CopyDeadLetters(t, js)
			}
			if _, err := topology.Ensure(t.Context(), js, always); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Stream(t.Context(), "QUARANTINE"); !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("the old stream: %v, want none", err)
			}
			c, n := config(t, js, topology.DeadLetter)
			if n != 3 || len(c.Sources) != 0 {
				t.Errorf("%d dead letters, %d sources; want 3 and none", n, len(c.Sources))
			}
			s, _ := js.Stream(t.Context(), topology.DeadLetter)
			m, err := s.GetLastMsgForSubject(t.Context(), topology.DeadLetterSubject(topology.Intents, "unknown"))
			if err != nil || m.Header.Get("Garrison-Reason") != "it is bad" || m.Data[0] != 2 {
				t.Errorf("the last dead letter is %v (%v)", m, err)
			}
			if plan, err := topology.Look(t.Context(), js, always); err != nil ||
				len(plan.Changes)+len(plan.Steps) != 0 {
				t.Errorf("planned again: %+v (%v), want nothing", plan, err)
			}
		})
	}
}

func TestASubjectIsAddedToAStreamAndNotTakenAway(t *testing.T) {
	js := oldBus(t, func(*jetstream.StreamConfig) {})
	wider := topology.Streams(1)
	for i := range wider {
		if wider[i].Name == topology.Intents {
			wider[i].Subjects = append(wider[i].Subjects, "garrison.more.>")
		}
	}
	if _, err := topology.EnsureStreams(t.Context(), js, always, wider); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "garrison.more.x", nil); err != nil {
		t.Errorf("on the new subject: %v", err)
	}
	if _, n := config(t, js, topology.Intents); n != 2 {
		t.Errorf("%d intents, want the one that was there and the new one", n)
	}
	if _, err := topology.Ensure(t.Context(), js, always); fault.RefusalOf(err).GetCode() != "TOPOLOGY_LOSSY" {
		t.Errorf("taken away again: %v, want TOPOLOGY_LOSSY", err)
	}
}

func TestALossyChangeIsRefusedByNameAndNothingIsChanged(t *testing.T) {
	js := oldBus(t, func(s *jetstream.StreamConfig) {
		if s.Name == topology.Intents {
			s.Subjects = append(s.Subjects, "garrison.more.>")
		}
		if s.Name == topology.Blobs {
			s.MaxMsgSize = 1 << 10 // this alone could be changed
		}
	})
	_, err := topology.Ensure(t.Context(), js, always)
	r := fault.RefusalOf(err)
	named := strings.Contains(r.GetMessage(), "INTENTS: subjects is")
	if r.GetCode() != "TOPOLOGY_LOSSY" || !fault.Is(err, fault.Conflict) || !named || r.GetTry() == "" {
		t.Errorf("%v, want TOPOLOGY_LOSSY that names the subjects of INTENTS", err)
	}
	if c, _ := config(t, js, topology.Blobs); c.MaxMsgSize != 1<<10 {
		t.Error("BLOBS was changed all the same")
	}
}

// A newer program's bus, which this one may use or may not.
func TestABusThatANewerProgramSetUpIsLeftAlone(t *testing.T) {
	for name, floor := range map[string]int{
		"it may be used":     topology.Number,
		"it may not be used": topology.Number + 1,
	} {
		t.Run(name, func(t *testing.T) {
			js := oldBus(t, func(s *jetstream.StreamConfig) {
				if s.Name == topology.Intents {
					s.Subjects = append(s.Subjects, "garrison.more.>")
					s.MaxMsgSize = 1 << 10
				}
				if s.Name == topology.Ledger {
					s.Metadata = map[string]string{
						topology.MetadataNumber: strconv.Itoa(
							topology.Number + 1), topology.MetadataFloor: strconv.Itoa(floor),
					}
				}
			})
			before, _ := config(t, js, topology.Intents)
			plan, err := topology.Ensure(t.Context(), js, always)
			if floor == topology.Number && (err != nil || !plan.From.Newer()) {
				t.Errorf("%+v, %v, want it taken as it is", plan, err)
			}
			want := fmt.Sprintf("the bus has topology %d, which needs a program that knows topology %d",
				topology.Number+1, floor)
			refused := fault.RefusalOf(err).GetCode() == "TOPOLOGY_TOO_NEW" && strings.Contains(err.Error(), want)
			if floor > topology.Number && !refused {
				t.Errorf("%v, want TOPOLOGY_TOO_NEW: %s", err, want)
			}
			after, _ := config(t, js, topology.Intents)
			if !slices.Equal(after.Subjects, before.Subjects) || after.MaxMsgSize != before.MaxMsgSize {
				t.Errorf("INTENTS was changed: %+v", after)
			}
			if _, err := js.Consumer(t.Context(), topology.Intents, topology.RegistryIntents.Durable); err == nil {
				t.Error("a consumer was made")
			}
		})
	}
}

// The number is raised, and a step is named, with each change of the topology. The floor is raised with a change that
// takes from older programs what they use: a subject, a consumer, an export or a permission. New nouns and kinds of
// facts do not raise it, since a program refuses decisions that rest on facts that it cannot read.
func TestTheNumberAndTheFloorAreRaisedWithTheTopology(t *testing.T) {
	if last := topology.Steps[len(topology.Steps)-1]; last.To != topology.Number {
		t.Errorf("the last step leads to %d, want %d", last.To, topology.Number)
	}
	golden := filepath.Join("testdata", "released.golden")
	if *update {
		text := fmt.Sprintf("%d\n%s\n", topology.Number, strings.Join(listing(t), "\n"))
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(kept), "\n")
	released, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range unraised(released, strings.Split(strings.TrimSpace(rest), "\n"),
		topology.Number, topology.Floor, listing(t)) {
		t.Errorf("%s; while no program with number %d was released, run the test with -update", broken, topology.Number)
	}
}

// unraised returns what is wrong with a number and a floor, given the listing of the last release.
func unraised(released int, was []string, number, floor int, is []string) (wrong []string) {
	if !slices.Equal(was, is) && number <= released {
		wrong = append(wrong, fmt.Sprintf("the topology is not what number %d stood for: raise Number, and add what "+
			"changed to Steps", released))
	}
	for _, line := range was {
		if !strings.HasPrefix(line, "setting ") && !slices.Contains(is, line) && floor <= released {
			wrong = append(wrong,
				fmt.Sprintf("programs of number %d lose %q: raise Floor to %d", released, line, number))
		}
	}
	return wrong
}

func TestWhatOlderProgramsLoseRaisesTheFloor(t *testing.T) {
	was := []string{"setting stream A {}", "subject A a.>", "publish registry b.*"}
	for name, c := range map[string]struct {
		number, floor int
		is            []string
		wrong         int
	}{
		"nothing changed":         {13, 3, was, 0},
		"more, and the number":    {14, 3, append([]string{"subject A c"}, was...), 0},
		"more, and no number":     {13, 3, append([]string{"subject A c"}, was...), 1},
		"a setting":               {14, 3, append([]string{"setting stream A {1}"}, was[1:]...), 0},
		"less, and no floor":      {14, 3, was[:2], 1},
		"less, and the floor":     {14, 14, was[:2], 0},
		"less, nothing is raised": {13, 3, was[:2], 2},
	} {
		if wrong := unraised(13, was, c.number, c.floor, c.is); len(wrong) != c.wrong {
			t.Errorf("%s: %q, want %d", name, wrong, c.wrong)
		}
	}
}

// listing returns what the number stands for: a line for each thing that a program may use, and for each setting.
func listing(t *testing.T) []string {
	t.Helper()
	var out []string
	add := func(kind, name string, values ...string) {
		for _, v := range values {
			out = append(out, kind+" "+name+" "+v)
		}
	}
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, s := range topology.Streams(1) {
		add("subject", s.Name, s.Subjects...)
		s.Description, s.Subjects = "", nil
		add("setting", "stream "+s.Name, text(s))
	}
	for _, c := range topology.AllConsumers {
		add("consumer", c.Stream, c.Durable)
		add("setting", "consumer "+c.Durable, text(c.Config()))
	}
	for _, e := range topology.Exports {
		add("export", e.From, text(e))
	}
	permit := func(who string, p topology.Permissions) {
		add("publish", who, p.Publish...)
		add("subscribe", who, p.Subscribe...)
		add("setting", who, fmt.Sprintf("payload %d, answers %v", p.Payload, p.Answers))
	}
	permit("server", topology.NodePermissions)
	permit("guest", topology.GuestPermissions)
	for _, r := range topology.Roles {
		permit("role "+string(r), topology.RolePermissions(r))
	}
	for _, s := range topology.Users {
		permit("service "+s, topology.ServicePermissions(s))
	}
	slices.Sort(out)
	return out
}

// A bus whose contract in force this program does not know was finished by a newer one.
func TestABusWithANewerContractInForceIsRefused(t *testing.T) {
	js := oldBus(t, func(s *jetstream.StreamConfig) {
		if s.Name == topology.Ledger {
			s.Metadata = map[string]string{topology.MetadataContract: strconv.Itoa(version.Contract + 1)}
		}
	})
	_, err := topology.Ensure(t.Context(), js, always)
	if fault.RefusalOf(err).GetCode() != "TOPOLOGY_TOO_NEW" || !strings.Contains(err.Error(), "contract 2 in force") {
		t.Errorf("%v, want TOPOLOGY_TOO_NEW that names the contract", err)
	}
}

// A bus that is brought forward keeps the contract in force: the program before must be able to read its facts.
func TestOnlyANewBusHasTheContractOfItsProgram(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"of before there was one": func(*jetstream.StreamConfig) {},
		"of contract 1": func(s *jetstream.StreamConfig) {
			if s.Name == topology.Ledger {
				s.Metadata = map[string]string{topology.MetadataContract: "1"}
			}
		},
	} {
		js := oldBus(t, change)
		if _, err := topology.Ensure(t.Context(), js, always); err != nil {
			t.Fatal(err)
		}
		if c, _ := config(t, js, topology.Ledger); topology.NumbersOf(c.Metadata).Contract != 1 {
			t.Errorf("%s: %v, want contract 1", name, c.Metadata)
		}
	}
}
