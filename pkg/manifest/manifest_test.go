package manifest_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func valid() *imagev1.Manifest {
	digest := sha256.Sum256([]byte("x"))
	m := &imagev1.Manifest{
		Agent: "a", Version: "1.0.0", Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Run:      &imagev1.Run{Command: "run"},
		Blob: &imagev1.Blob{
			Digest:            digest[:],
			SizeBytes:         1,
			ChunkSizeBytes:    topology.ChunkSize,
			ChunkDigests:      [][]byte{digest[:]},
			UnpackedSizeBytes: 1,
			Entries:           1,
		},
	}
	m.Id = manifest.ID(m)
	return m
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	if err := manifest.Check(valid()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*imagev1.Manifest)
		code   string
	}{
		"an empty manifest": {func(m *imagev1.Manifest) { proto.Reset(m) }, code.BadManifest},
		"a name":            {func(m *imagev1.Manifest) { m.Agent = "a.b" }, code.BadName},
		"a version":         {func(m *imagev1.Manifest) { m.Version = "latest" }, code.BadVersion},
		"no platform":       {func(m *imagev1.Manifest) { m.Platform = nil }, code.UnknownPlatform},
		"a kind":            {func(m *imagev1.Manifest) { m.Kind = 77 }, code.BadManifest},
		"no kind":           {func(m *imagev1.Manifest) { m.Kind = 0 }, code.BadManifest},
		"no run":            {func(m *imagev1.Manifest) { m.Run = nil }, code.BadManifest},
		"a takeover":        {func(m *imagev1.Manifest) { m.Run.Takeover = 9 }, code.BadManifest},
		"a stop timeout":    {func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 1 << 30 }, code.BadManifest},
		"a zero byte":       {func(m *imagev1.Manifest) { m.Run.Args = []string{"a\x00"} }, code.BadManifest},
		"too many words": {
			func(m *imagev1.Manifest) { m.Run.Args = make([]string, 5000) }, code.BadManifest,
		},
		"too long an argument": {
			func(m *imagev1.Manifest) { m.Run.Args = []string{strings.Repeat("x", 1<<17)} }, code.BadManifest,
		},
		"no blob":        {func(m *imagev1.Manifest) { m.Blob = nil }, code.BadManifest},
		"a short digest": {func(m *imagev1.Manifest) { m.Blob.Digest = []byte{1} }, code.BadManifest},
		"a short chunk digest": {
			func(m *imagev1.Manifest) { m.Blob.ChunkDigests[0] = []byte{1} }, code.BadManifest,
		},
		"no bytes": {func(m *imagev1.Manifest) { m.Blob.SizeBytes = 0 }, code.BadManifest},
		"more than 4 GiB": {
			func(m *imagev1.Manifest) { m.Blob.SizeBytes = manifest.MaxSize + 1 }, code.BadManifest,
		},
		"no chunk size": {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = 0 }, code.BadManifest},
		"too large chunks": {
			func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = topology.ChunkSize + 1 }, code.BadManifest,
		},
		"too small chunks": {
			func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes, m.Blob.SizeBytes = 1, 1<<20 }, code.BadManifest,
		},
		"a missing chunk digest": {
			func(m *imagev1.Manifest) { m.Blob.SizeBytes = topology.ChunkSize + 1 }, code.BadManifest,
		},
		"too large when unpacked": {
			func(m *imagev1.Manifest) { m.Blob.UnpackedSizeBytes = manifest.MaxUnpacked + 1 }, code.BadManifest,
		},
		"too many entries": {
			func(m *imagev1.Manifest) { m.Blob.Entries = manifest.MaxEntries + 1 }, code.BadManifest,
		},
		"an empty tag": {
			func(m *imagev1.Manifest) { m.Tags = map[string]string{"": "x"} }, code.BadManifest,
		},
		"an id of something else": {func(m *imagev1.Manifest) { m.Version = "1.0.1" }, code.WrongID},
		"a variable without a name": {
			func(m *imagev1.Manifest) { m.Run.Env = map[string]string{"A": "${}"} }, code.UnknownVariable,
		},
		"a command leading out":    {func(m *imagev1.Manifest) { m.Run.Command = "a/../../b" }, code.Outside},
		"a command with backslash": {func(m *imagev1.Manifest) { m.Run.Command = `a\b` }, code.Outside},
	} {
		t.Run(name, func(t *testing.T) {
			m := valid()
			c.change(m)
			err := manifest.Check(m)
			if have := fault.RefusalOf(err).GetCode(); have != c.code || !fault.Is(err, fault.Invalid) {
				t.Fatalf("refused as %q (%v), want %q", have, err, c.code)
			}
		})
	}
}

func TestAnExecutorNeedsACommand(t *testing.T) {
	m := valid()
	m.Kind, m.Run.Command = agentv1.Kind_KIND_SELF, ""
	if r := fault.RefusalOf(manifest.Check(m)); !strings.Contains(r.GetMessage(), "run.command is missing") {
		t.Errorf("refused as %v", r)
	}
}

func TestVersionsOfOtherSystemsAreAccepted(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"1.2.3": true, "0.0.3vrelease-20130401-g0bd6d2c": true, "master-20160527T165825Z-g020d169": true,
		"1.2.3.4": true, "1:2": false, "1/2": false, "../1": false, "-1": false, "latest": false, "v1.0.0": false,
		"1.0": false, "": false,
		strings.Repeat("1", 129): false,
	} {
		if err := manifest.CheckVersion(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", text, err, ok)
		}
	}
}

func TestEveryFaultIsListedAtOnceWithItsFieldAndCode(t *testing.T) {
	m := valid()
	m.Agent, m.Version, m.Platform.Os = "A_b", "latest", "plan8"
	m.Run.Args = []string{"${port}", "fine", "${nosuch}"}
	m.Run.Ready = &imagev1.Ready{Probe: &imagev1.Ready_Tcp{Tcp: "here"}, TimeoutMs: 1 << 30}
	m.Requires = []*imagev1.Requirement{{Agent: "db", Versions: "soon"}}
	m.Machine = &imagev1.Machine{Kernel: "new"}
	m.Blob.Entries = manifest.MaxEntries + 1
	var have []string
	for _, f := range fault.RefusalOf(manifest.Check(m)).GetFaults() {
		have = append(have, f.Field+" "+f.Code)
	}
	slices.Sort(have)
	want := []string{
		"agent BAD_NAME", "blob.entries BAD_MANIFEST", "machine.kernel BAD_VERSION", "platform UNKNOWN_PLATFORM",
		"requires[0] BAD_MANIFEST", "run.args[0] UNKNOWN_VARIABLE", "run.args[2] UNKNOWN_VARIABLE",
		"run.ready.tcp BAD_MANIFEST", "run.ready.timeout BAD_MANIFEST", "version BAD_VERSION",
	}
	if !slices.Equal(have, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheFaultsOfAHostileManifestFitIntoAMessage(t *testing.T) {
	m := valid()
	for range 500 {
		m.Run.Args = append(m.Run.Args, "${"+strings.Repeat("x", 1000)+"}")
	}
	m.Run.Rehearsal = &imagev1.Exec{Command: "run", Args: m.Run.Args}
	m.Machine = &imagev1.Machine{MemoryBytes: 1 << 60, DiskBytes: 1 << 60}
	r := fault.RefusalOf(manifest.Check(m))
	if size := proto.Size(r); size > 256<<10 || r.Message != "the image has at least 64 faults" {
		t.Errorf("a refusal of %d bytes: %s", size, r.Message)
	}
	if again := fault.RefusalOf(manifest.Check(m)); !proto.Equal(r, again) {
		t.Errorf("first %v\nthen %v", r, again)
	}
}

func TestAMachineLacksWhatItReportsOtherwise(t *testing.T) {
	no := false
	have := &serverv1.Sysinfo{
		Kernel: "6.1.0-18-amd64", Distribution: "debian 12", CgroupV2: &no, MemoryBytes: 1 << 30,
	}
	for want, m := range map[string]*imagev1.Machine{
		"": {Kernel: "6.1", Distributions: []*imagev1.Distribution{{Id: "ubuntu"}, {Id: "debian", Version: "11"}},
			MemoryBytes: 1 << 30},
		"it needs kernel 6.10 or newer, and has kernel 6.1.0-18-amd64": {Kernel: "6.10"},
		"it needs debian 13 or newer or alpine, and has debian 12": {
			Distributions: []*imagev1.Distribution{{Id: "debian", Version: "13"}, {Id: "alpine"}},
		},
		"it needs control groups of version 2 alone, and has version 1; it needs 2 TiB of memory, and has " +
			"1 GiB": {CgroupV2: true, MemoryBytes: 2 << 40},
	} {
		if got := manifest.Words(manifest.Lacks(m, have)); got != want {
			t.Errorf("%v: %q, want %q", m, got, want)
		}
		if lacks := manifest.Lacks(m, &serverv1.Sysinfo{}); lacks != nil {
			t.Errorf("%v: a machine that reports nothing lacks %v", m, lacks)
		}
	}
}

func TestALimitIsWhatAMachineCanHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run    *imagev1.Run
		faulty bool
	}{
		"all processors of the largest machine": {&imagev1.Run{Limits: &imagev1.Limits{CpuPercent: 409_600}}, false},
		"more processors than a machine has":    {&imagev1.Run{Limits: &imagev1.Limits{CpuPercent: 409_601}}, true},
		"a capability":                          {bounded("CAP_NET_RAW"), false},
		"a capability that Linux does not have": {bounded("CAP_EVERYTHING"), true},
		"a socket at a variable":                {listening("${label.host}:${label.port}"), false},
		"a socket at a name":                    {listening("x.example:80"), true},
		"a socket at a port with letters":       {listening(":x80"), true},
	} {
		m := valid()
		c.run.Command, m.Run = m.Run.Command, c.run
		if r := fault.RefusalOf(manifest.Check(m)); (len(r.GetFaults()) == 1) != c.faulty {
			t.Errorf("%s: %v, want a fault: %v", name, r, c.faulty)
		}
	}
}

func bounded(capability string) *imagev1.Run {
	return &imagev1.Run{Sandbox: &imagev1.Sandbox{BoundCapabilities: true, Capabilities: []string{capability}}}
}

func listening(at string) *imagev1.Run {
	return &imagev1.Run{Sockets: []*imagev1.Socket{{Name: "http", Listen: at}}}
}

func TestCapabilitiesThatAreNamedAndNotBoundAreRefused(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Run.Sandbox = &imagev1.Sandbox{Capabilities: []string{"CAP_KILL"}}
	if r := fault.RefusalOf(manifest.Check(m)); r.GetCode() != code.BadManifest {
		t.Errorf("got %v", r)
	}
}
