package detect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// write makes a file below a directory, with the directories above it.
func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, c Config, all bool, detectors ...string) *reportv1.CandidatesReport {
	t.Helper()
	r, err := Run(t.Context(), c, &serverv1.Scan{All: all, Detectors: detectors})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines returns what a report lists: id, version and files.
func lines(r *reportv1.CandidatesReport) (out []string) {
	for _, c := range r.GetCandidates() {
		line := fmt.Sprintf("%s %s %v", c.Id, c.Version, c.Files)
		if c.FilesMore > 0 {
			line += fmt.Sprintf(" +%d", c.FilesMore)
		}
		out = append(out, line)
	}
	return out
}

func reasons(r *reportv1.CandidatesReport) (out []string) {
	for _, d := range r.GetDetections() {
		if d.Reason != "" {
			out = append(out, d.Detector+": "+d.Reason)
		}
	}
	return out
}

func TestUnitsOfSystemdAreReadWithTheirFiles(t *testing.T) {
	root := t.TempDir()
	write(t, root, "shown", `MainPID=0
Id=web.service
ActiveState=failed
SubState=failed
UnitFileState=enabled
LoadState=loaded
FragmentPath=/etc/systemd/system/web.service

Id=systemd-journald.service
MainPID=0
ActiveState=active
SubState=running
UnitFileState=static
LoadState=loaded
FragmentPath=/usr/lib/systemd/system/systemd-journald.service

Id=garrison-1234-web-abc.service
ActiveState=failed
LoadState=loaded
FragmentPath=/run/systemd/transient/garrison-1234-web-abc.service

Id=missing.service
LoadState=not-found
`, 0o644)
	write(t, root, "usr/bin/systemctl", "#!/bin/sh\ncat "+root+"/shown\n", 0o755)
	r := run(t, Config{Root: root, Units: "garrison-"}, false, "systemd")
	if len(r.Candidates) != 1 {
		t.Fatalf("found %v", lines(r))
	}
	want := &serverv1.Candidate{
		Id: "unit/web.service", Detector: "systemd", Kind: serverv1.CandidateKind_CANDIDATE_KIND_UNIT,
		Name: "web.service", Unit: "web.service", Path: "/etc/systemd/system/web.service",
		State: "failed/failed, enabled",
	}
	if !proto.Equal(r.Candidates[0], want) {
		t.Errorf("%v", r.Candidates[0])
	}
}

// TestHelper is the process that other tests find: it listens until its input ends.
func TestHelper(t *testing.T) {
	if os.Getenv("DETECT_HELPER") == "" {
		t.Skip("a helper of other tests")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("at %s\n", l.Addr())
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// helper starts a process that listens, and returns its id and address.
func helper(t *testing.T, args ...string) (pid int, at string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestHelper$", "-test.v"}, args...)...)
	cmd.Env = append(os.Environ(), "DETECT_HELPER=1", "MY_SECRET=in-the-environment")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var said bytes.Buffer
	for !strings.Contains(said.String(), "at 127.0.0.1:") || !strings.HasSuffix(said.String(), "\n") {
		b := make([]byte, 1)
		if _, err := out.Read(b); err != nil {
			t.Fatalf("the helper ended: %v: %s", err, said.String())
		}
		said.Write(b)
	}
	_, at, _ = strings.Cut(strings.TrimSpace(said.String()), "at ")
	return cmd.Process.Pid, at
}

func TestAProcessThatListensIsFoundWithoutItsSecrets(t *testing.T) {
	pid, at := helper(t, "-test.timeout=9m", "--", "--password", "hunter2", "--api-key=hunter3")
	r := run(t, Config{}, false, "process")
	n := slices.IndexFunc(r.Candidates, func(c *serverv1.Candidate) bool { return c.Pid == uint32(pid) })
	if n < 0 {
		t.Fatalf("not found: %v", lines(r))
	}
	c := r.Candidates[n]
	exe, _ := os.Executable()
	if c.Exe != exe || !slices.Contains(c.Sockets, "tcp "+at) || c.Name != filepath.Base(exe) || c.User == "" ||
		c.StartedAt.AsTime().Year() < 2020 {
		t.Errorf("found as %v", c)
	}
	if text := c.String(); strings.Contains(text, "hunter") || strings.Contains(text, "in-the-environment") {
		t.Errorf("it shows a secret: %s", text)
	}
	p, ok := Find(c.Id, nil)
	if !ok || p.Pid != pid || p.Exe != exe || !slices.Contains(p.Sockets, "tcp "+at) {
		t.Errorf("its id finds %v, %v", p, ok)
	}
	if _, ok := Find(fmt.Sprintf("process/%d-%d", pid, p.Start+1), nil); ok {
		t.Error("another start of the same id counts as the process")
	}
	again := run(t, Config{}, false, "process")
	if n := slices.IndexFunc(again.Candidates, func(x *serverv1.Candidate) bool { return x.Id == c.Id }); n < 0 ||
		!proto.Equal(again.Candidates[n], c) {
		t.Error("a second scan shows it otherwise")
	}
	ours := run(t, Config{Ours: func(p int) bool { return p == pid }}, true, "process")
	if slices.ContainsFunc(ours.Candidates, func(c *serverv1.Candidate) bool { return c.Pid == uint32(pid) }) {
		t.Error("Garrison's own process is a candidate")
	}
}

func TestAnIDIsReadAsItIsWritten(t *testing.T) {
	for id, want := range map[string]bool{
		"process/7-8": true, "process/07-8": false, "process/7": false, "unit/7-8": false, "process/1-8": false,
		"process/7-8 ": false, "process/-7-8": false, "": false,
	} {
		if _, _, ok := parseProcessID(id); ok != want {
			t.Errorf("%q: %v", id, ok)
		}
	}
}

func TestValuesThatMayBeSecretsAreMasked(t *testing.T) {
	args := []string{
		"web", "--password", "a", "--token=b", "-db-passwd", "c", "DB_PASSWORD=d", "postgres://u:e@host/x",
		"Authorization: Bearer f", "--listen", ":80", "--auth-token", "--verbose",
	}
	want := []string{
		"web", "--password", "***", "--token=***", "-db-passwd", "***", "DB_PASSWORD=***", "postgres://u:***@host/x",
		"Authorization: ***", "--listen", ":80", "--auth-token", "--verbose",
	}
	if diff := cmp.Diff(want, maskArgs(args)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := maskArgs(append(slices.Repeat([]string{"x"}, 100), strings.Repeat("y", 1000)))
	if len(long) != maxArgs+1 {
		t.Errorf("%d arguments", len(long))
	}
}

func TestAReportIsBoundedAndCountsWhatItLeavesOut(t *testing.T) {
	var many []*serverv1.Candidate
	for n := range 3000 {
		many = append(many, &serverv1.Candidate{
			Id: fmt.Sprintf("x/%05d", n), Name: strings.Repeat("n", 500), Path: strings.Repeat("p", 500),
		})
	}
	d := stub{many}
	one := look(t.Context(), &Scan{}, d)
	if len(one.candidates) != MaxEach || one.detection.More != 2000 || len(one.candidates[0].Name) > 128 {
		t.Fatalf("%d listed, %d more", len(one.candidates), one.detection.More)
	}
	r := &reportv1.CandidatesReport{}
	merge(r, []result{one})
	if size := proto.Size(r); size > MaxBytes+1000 || int(r.Detections[0].Listed+r.Detections[0].More) != 3000 {
		t.Errorf("%d bytes, %v", size, r.Detections)
	}
}

// stub finds what a test says.
type stub struct{ found []*serverv1.Candidate }

func (stub) Name() string { return "stub" }

func (s stub) Detect(context.Context, *Scan) ([]*serverv1.Candidate, error) { return s.found, nil }

func TestAnUnknownDetectorIsRefusedWithTheNearest(t *testing.T) {
	_, err := Run(t.Context(), Config{Root: t.TempDir()}, &serverv1.Scan{Detectors: []string{"dpgk"}})
	if r := fault.RefusalOf(err); r.GetCode() != code.UnknownDetector || !strings.Contains(r.GetTry(), "dpkg") {
		t.Errorf("%v", err)
	}
}

func TestTheDigestOfAListIsThatOfItsBytes(t *testing.T) {
	list := []*serverv1.Candidate{{Id: "a"}, {Id: "b"}}
	l, err := Listed(list)
	if err != nil || l.Candidates != 2 || len(l.Sha256) != sha256.Size {
		t.Fatal(l, err)
	}
	if other, _ := Listed(list[:1]); bytes.Equal(other.Sha256, l.Sha256) {
		t.Error("another list has the same digest")
	}
}

func TestTheServiceOfAProcessIsReadInEachHierarchyOfSystemd(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/web.service\n":                                           "web.service",
		"12:pids:/a.service\n1:name=systemd:/system.slice/web.service\n":           "web.service",
		"1:name=systemd:/system.slice/web.service\n0::/system.slice/web.service\n": "web.service",
		"0::/user.slice/user-0.slice/user@0.service/app.slice/mail.service\n":      "user@0.service",
		"0::/machine.slice/machine-a.scope/payload/system.slice/web.service\n":     "machine-a.scope",
		"0::/user.slice/user-0.slice/session-3.scope\n":                            "session-3.scope",
		"12:pids:/system.slice/a.service\n1:name=systemd:/\n0::/\n":                "",
		"2:cpu,cpuacct:/docker/0123\n":                                             "",
	} {
		if got := unitIn(groups); got != want {
			t.Errorf("%q is in %q, want %q", groups, got, want)
		}
	}
}
