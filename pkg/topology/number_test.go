package topology_test

import (
	"crypto/sha256"
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
	if err != nil || plan.From != (topology.Numbers{}) || plan.New || len(plan.Steps) != len(topology.Steps) {
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

// The number is raised, and a step is named, with each change of the topology.
func TestTheNumberIsRaisedWithTheTopology(t *testing.T) {
	if last := topology.Steps[len(topology.Steps)-1]; last.To != topology.Number {
		t.Errorf("the last step leads to %d, want %d", last.To, topology.Number)
	}
	have := fmt.Sprintf("%d %x\n", topology.Number, digest(t))
	golden := filepath.Join("testdata", "number.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != have {
		t.Errorf(
			"the topology is not what number %d stood for (%v): raise topology.Number and add to Steps what changed, "+
				"unless no program with this number was released; then run the test with -update",
			topology.Number,
			err,
		)
	}
}

// digest returns a digest of what the number stands for.
func digest(t *testing.T) [sha256.Size]byte {
	t.Helper()
	permissions := map[string]topology.Permissions{
		"server": topology.NodePermissions,
		"guest":  topology.GuestPermissions,
	}
	for _, r := range topology.Roles {
		permissions["role "+string(r)] = topology.RolePermissions(r)
	}
	for _, s := range topology.Users {
		permissions["service "+s] = topology.ServicePermissions(s)
	}
	streams := topology.Streams(1)
	for i := range streams {
		streams[i].Description = ""
	}
	var consumers []jetstream.ConsumerConfig
	for _, c := range topology.AllConsumers {
		consumers = append(consumers, c.Config())
	}
	data, err := json.Marshal([]any{streams, consumers, topology.Exports, permissions})
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}
