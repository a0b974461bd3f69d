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

	"github.com/garrison-fleet/garrison/pkg/bus"
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
		t.Errorf("the bus is not what its page says; if that is meant, run the test with -update (-want +have):\n%s",
			diff)
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
	fmt.Fprintf(&b,
		"  at most %d messages of each are delivered and not settled; delivered again after %v without a word\n",
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
	b.WriteString("\nWHAT LEAVES OR ENTERS AN ACCOUNT\n")
	for _, e := range topology.Exports {
		kind := "service"
		if e.Stream {
			kind = "stream"
		}
		fmt.Fprintf(&b, "  %-10s of %-10s %-7s %s", e.To, e.From, kind, e.Imported())
		if e.Local != "" {
			fmt.Fprintf(&b, "  as %s", e.Local)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nPERMISSIONS\n")
	printPermissions(&b, "a server", topology.NodePermissions)
	printPermissions(&b, "an invited server", topology.GuestPermissions)
	printPermissions(&b, "a machine without a token", topology.LobbyPermissions)
	for _, r := range topology.Roles {
		printPermissions(&b, "role "+string(r), topology.RolePermissions(r))
	}
	for _, s := range topology.Users {
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
	fmt.Fprintf(b, "    at most %d KiB a message\n", p.Payload>>10)
	for _, s := range p.Publish {
		fmt.Fprintf(b, "    pub %s\n", s)
	}
	for _, s := range p.Subscribe {
		fmt.Fprintf(b, "    sub %s\n", s)
	}
}

func TestProvisioningTwiceChangesNothing(t *testing.T) {
	b := bustest.StartEmpty(t)
	streams := bus.NewStreams(b.Dial(t, "provision"))
	for range 2 {
		if err := streams.Provision(t.Context(), topology.Bus{Replicas: 1}); err != nil {
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
		"nothing":              {func(*jetstream.StreamConfig) {}, false},
		"deletes were allowed": {func(s *jetstream.StreamConfig) { s.DenyDelete = false }, true},
		"acknowledged before written": {
			func(s *jetstream.StreamConfig) { s.PersistMode = jetstream.AsyncPersistMode }, true,
		},
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
		if got, k, err := topology.ParseReportSubject(topology.ReportSubject(a, kind)); err != nil || got != a ||
			k != kind {
			t.Fatalf("report: %v %s %v", got, k, err)
		}
		for subject, parse := range map[string]func(string) (topology.ServerAddress, error){
			topology.BellSubject(a):  topology.ParseBellSubject,
			topology.BeatSubject(a):  topology.ParseBeatSubject,
			topology.EnrolSubject(a): topology.ParseEnrolSubject,
			topology.RenewSubject(a): topology.ParseRenewSubject,
		} {
			if got, err := parse(subject); err != nil || got != a {
				t.Fatalf("%s: %v %v", subject, got, err)
			}
		}
		c := topology.ChunkAddress{
			ServerAddress: a, Digest: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest"),
			Number: rapid.IntRange(0, 1<<20).Draw(t, "number"),
		}
		if got, err := topology.ParseChunkRequestSubject(topology.ChunkRequestSubject(c)); err != nil || got != c {
			t.Fatalf("request for a chunk: %v %v", got, err)
		}
		if got, err := topology.ParseChunkAnswerSubject(topology.ChunkAnswerSubject(c)); err != nil || got != c {
			t.Fatalf("answer about a chunk: %v %v", got, err)
		}
		want := topology.IntentAddress{Verb: token.Draw(t, "verb"), Actor: token.Draw(t, "actor"), ID: ident.New()}
		subject := topology.IntentSubject(want.Verb, want.Actor, want.ID)
		if got, err := topology.ParseIntentSubject(subject); err != nil || got != want {
			t.Fatalf("intent: %v %v", got, err)
		}
	})
}

// The patterns beside the builders match what the builders build, and nothing of another class.
func TestAPatternMatchesTheSubjectsOfItsClassOnly(t *testing.T) {
	a := topology.ServerAddress{Cell: "main", Server: ident.New()}
	built := map[string]string{
		topology.IntentSubjects:     topology.IntentSubject(topology.VerbInstall, "ann", ident.New()),
		topology.DesiredSubjects:    topology.DesiredSubject(a),
		topology.BellSubjects:       topology.BellSubject(a),
		topology.ReportSubjects:     topology.ReportSubject(a, topology.ReportTask),
		topology.BeatSubjects:       topology.BeatSubject(a),
		topology.LiveSubjects:       topology.LiveSubject(a, topology.LiveTask),
		topology.EnrolSubjects:      topology.EnrolSubject(a),
		topology.RenewSubjects:      topology.RenewSubject(a),
		topology.ChunkSubjects:      topology.BlobSubject([]byte{1}, 2),
		topology.DeadLetterSubjects: topology.DeadLetterSubject(topology.Intents, "ann"),
		topology.LedgerSubjects:     ledger.FactSubject(ledger.Task, "t", "queued"),
	}
	chunk := topology.ChunkAddress{ServerAddress: a, Digest: "00"}
	built[topology.ChunkRequestSubjects] = topology.ChunkRequestSubject(chunk)
	built[topology.ChunkAnswerSubjects] = topology.ChunkAnswerSubject(chunk)
	for pattern := range built {
		for own, subject := range built {
			if topology.Matches(pattern, subject) != (own == pattern) {
				t.Errorf("%s and %s: matches is %v", pattern, subject, own != pattern)
			}
		}
	}
}

func TestASubjectThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "garrison", "garrison.intent.install.alice", "garrison.intent.install.alice.not-a-uuid",
		"garrison.intent.a.b.c.d",
	} {
		if _, err := topology.ParseIntentSubject(s); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", s, err)
		}
	}
}

// A server's permission has a wildcard for the digest and the number, so it may write one itself.
func TestARequestForAChunkNamesOneChunk(t *testing.T) {
	a := topology.ServerAddress{Cell: "main", Server: ident.New()}
	digest := strings.Repeat("0a", 32)
	whole := topology.ChunkRequestSubject(topology.ChunkAddress{ServerAddress: a, Digest: "x"})
	before := strings.TrimSuffix(whole, "x.0")
	for _, rest := range []string{
		"*.0", digest + ".*", "*.*", ">", "*.>", digest + ".>", digest, digest + ".", digest + ".0.0",
		"." + digest + ".0",
		digest + ".-1", digest + ".+1", digest + ".01", digest + ".0x1", digest + ".1e3", digest + ". 1", digest + ".x",
		digest + ".99999999999999999999", digest[1:] + ".0", digest[2:] + ".0", digest + "00.0",
		strings.ToUpper(digest) + ".0", strings.Repeat("*", 64) + ".0", strings.Repeat("g", 64) + ".0",
		digest[:32] + "/../" + digest[36:] + ".0", digest[:62] + "\x00a.0",
	} {
		got, err := topology.ParseChunkRequestSubject(before + rest)
		if !fault.Is(err, fault.Invalid) || got.Digest != "" || got.Number != 0 {
			t.Errorf("%q: %v, %v, want invalid", rest, got, err)
		}
	}
}

func FuzzARequestForAChunkIsReadAsItWasWritten(f *testing.F) {
	f.Add("garrison.chunk.main.x." + strings.Repeat("0a", 32) + ".7")
	f.Add("garrison.chunk.main.x.*.*")
	f.Fuzz(func(t *testing.T, subject string) {
		a, err := topology.ParseChunkRequestSubject(subject)
		if err == nil && (topology.ChunkRequestSubject(a) != subject || strings.ContainsAny(subject, "*>")) {
			t.Errorf("%q was read as %v", subject, a)
		}
	})
}

func TestADifferenceIsOneLine(t *testing.T) {
	d := topology.Difference{Setting: "max_age", Have: time.Hour, Want: time.Minute}
	if got, want := d.String(), "max_age is 1h0m0s, want 1m0s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
