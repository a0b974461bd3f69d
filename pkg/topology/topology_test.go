package topology_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGoldenPageOfTheBus(t *testing.T) {
	golden := filepath.Join("testdata", "topology.golden")
	page := page()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page); diff != "" {
		t.Errorf("the bus is not what its page says; if that is meant, run the test with -update (-want +have):\n%s", diff)
	}
}

// page prints everything that the values of the package say.
func page() string {
	var b strings.Builder
	b.WriteString("STREAMS of a single server\n")
	for _, s := range topology.Streams(1) {
		printStream(&b, s)
	}
	b.WriteString("\nDURABLE CONSUMERS\n")
	for _, c := range topology.AllConsumers {
		fmt.Fprintf(&b, "  %-10s %-18s %s\n", c.Stream, c.Durable, c.Filter)
	}
	fmt.Fprintf(&b, "  at most %d messages of each are delivered and not settled; delivered again after %v without a word\n",
		topology.MaxAckPending, topology.AckWait)
	b.WriteString("\nFACTS: garrison.ledger.NOUN.KEY.FACT\n")
	facts := map[ledger.Noun][]string{}
	var nouns []ledger.Noun
	for _, k := range ledger.Kinds {
		if facts[k.Noun] == nil {
			nouns = append(nouns, k.Noun)
		}
		facts[k.Noun] = append(facts[k.Noun], k.Name)
	}
	for _, n := range nouns {
		fmt.Fprintf(&b, "  %-12s by %-16s %s\n", n, n.Writer(), strings.Join(facts[n], " "))
	}
	b.WriteString("\nWHAT LEAVES OR ENTERS CORE\n")
	for _, e := range topology.Exports {
		kind := "service"
		if e.Stream {
			kind = "stream"
		}
		fmt.Fprintf(&b, "  %-6s %-7s %s", e.To, kind, e.Subject)
		if e.Local != "" {
			fmt.Fprintf(&b, "  as %s", e.Local)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nPERMISSIONS\n")
	printPermissions(&b, "a server", topology.NodePermissions)
	printPermissions(&b, "an invited server", topology.GuestPermissions)
	for _, r := range topology.Roles {
		printPermissions(&b, "role "+string(r), topology.RolePermissions(r))
	}
	for _, s := range append(topology.Services, topology.UserProvision, topology.UserSystem) {
		printPermissions(&b, "service "+s, topology.ServicePermissions(s))
	}
	return b.String()
}

func printStream(b *strings.Builder, s jetstream.StreamConfig) {
	fmt.Fprintf(b, "  %s  %s\n    %s\n", s.Name, strings.Join(s.Subjects, " "), s.Description)
	var settings []string
	add := func(set bool, format string, args ...any) {
		if set {
			settings = append(settings, fmt.Sprintf(format, args...))
		}
	}
	add(true, "discard %v", s.Discard)
	add(s.PersistMode == jetstream.AsyncPersistMode, "persist async")
	add(s.DenyDelete, "deny delete")
	add(s.DenyPurge, "deny purge")
	add(s.AllowDirect, "direct")
	add(s.AllowAtomicPublish, "atomic")
	add(s.DiscardNewPerSubject, "discard new per subject")
	add(s.MaxMsgsPerSubject > 0, "%d a subject", s.MaxMsgsPerSubject)
	add(s.MaxAge > 0, "max age %v", s.MaxAge)
	add(s.MaxBytes > 0, "max %d MiB", s.MaxBytes>>20)
	add(s.MaxMsgSize > 0, "max %d KiB a message", s.MaxMsgSize>>10)
	add(s.Duplicates > 0, "duplicates %v", s.Duplicates)
	if r := s.RePublish; r != nil {
		add(true, "rings %s", r.Destination)
	}
	fmt.Fprintf(b, "    %s\n", strings.Join(settings, ", "))
}

func printPermissions(b *strings.Builder, who string, p topology.Permissions) {
	fmt.Fprintf(b, "  %s\n", who)
	for _, s := range p.Publish {
		fmt.Fprintf(b, "    pub %s\n", s)
	}
	for _, s := range p.Subscribe {
		fmt.Fprintf(b, "    sub %s\n", s)
	}
}

func TestProvisioningTwiceChangesNothing(t *testing.T) {
	b := bustest.StartEmpty(t)
	c := b.Dial(t, "provision")
	for range 2 {
		if err := c.Provision(t.Context(), topology.Bus{Replicas: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDriftThatCouldLoseDataIsRefused(t *testing.T) {
	want := topology.Streams(1)[1]
	for name, change := range map[string]struct {
		edit  func(*jetstream.StreamConfig)
		lossy bool
	}{
		"nothing":                      {func(*jetstream.StreamConfig) {}, false},
		"deletes were allowed":         {func(s *jetstream.StreamConfig) { s.DenyDelete = false }, true},
		"acknowledged before written":  {func(s *jetstream.StreamConfig) { s.PersistMode = jetstream.AsyncPersistMode }, true},
		"old facts are thrown away":    {func(s *jetstream.StreamConfig) { s.Discard = jetstream.DiscardOld }, true},
		"no limit was set before":      {func(s *jetstream.StreamConfig) { s.MaxMsgSize = 0 }, false},
		"direct get was off":           {func(s *jetstream.StreamConfig) { s.AllowDirect = false }, false},
		"a replica less would be kept": {func(s *jetstream.StreamConfig) { s.Replicas = 3 }, true},
		"other subjects":               {func(s *jetstream.StreamConfig) { s.Subjects = []string{"other.>"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			have := want
			change.edit(&have)
			drift := topology.Drift(have, want)
			lossy := false
			for _, d := range drift {
				lossy = lossy || d.Lossy
			}
			if (name == "nothing") != (len(drift) == 0) || lossy != change.lossy {
				t.Errorf("drift %v, want lossy %v", drift, change.lossy)
			}
		})
	}
}

func TestParsingASubjectGivesBackWhatItWasMadeFrom(t *testing.T) {
	token := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		a := topology.ServerAddress{Cell: token.Draw(t, "cell"), Server: ident.New()}
		kind := token.Draw(t, "kind")
		if got, k, err := topology.ParseReportSubject(topology.ReportSubject(a, kind)); err != nil || got != a || k != kind {
			t.Fatalf("report: %v %s %v", got, k, err)
		}
		for class, subject := range map[string]string{
			"desired": topology.DesiredSubject(a), "bell": topology.BellSubject(a), "beat": topology.BeatSubject(a), "enrol": topology.EnrolSubject(a),
		} {
			if got, err := topology.ParseServerSubject(class, subject); err != nil || got != a {
				t.Fatalf("%s: %v %v", class, got, err)
			}
		}
		want := topology.IntentAddress{Verb: token.Draw(t, "verb"), Actor: token.Draw(t, "actor"), ID: ident.New()}
		if got, err := topology.ParseIntentSubject(topology.IntentSubject(want.Verb, want.Actor, want.ID)); err != nil || got != want {
			t.Fatalf("intent: %v %v", got, err)
		}
	})
}

func TestASubjectThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []string{"", "garrison", "garrison.intent.install.alice", "garrison.intent.install.alice.not-a-uuid", "garrison.intent.a.b.c.d"} {
		if _, err := topology.ParseIntentSubject(s); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", s, err)
		}
	}
}

func TestADifferenceIsOneLine(t *testing.T) {
	d := topology.Difference{Setting: "max_age", Have: time.Hour, Want: time.Minute}
	if got, want := d.String(), "max_age is 1h0m0s, want 1m0s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
