package detect

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// detectors makes a directory of detectors that strictdir accepts.
func detectors(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "detectors.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAServersOwnDetectorsPrintJSON(t *testing.T) {
	dir := detectors(t)
	pid, _ := helper(t)
	write(t, dir, "legacy", fmt.Sprintf(`#!/bin/sh
echo '{"kind": "tree", "name": "old-agent", "version": "0.9", "path": "/srv/old", "files": ["/srv/old/run"]}'
echo '{"kind": "process", "name": "helper", "version": "7.7", "pid": %d}'
echo '{"kind": "tree", "name": "x", "shell": "no"}'
`, pid), 0o755)
	write(t, dir, "slow", "#!/bin/sh\nexec sleep 600\n", 0o755)
	write(t, dir, "open", "#!/bin/sh\n", 0o777)
	write(t, dir, "dpkg", "#!/bin/sh\n", 0o755)
	write(t, dir, "notes.txt", "", 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-ctx.Done() }()
	r := run(t, Config{Root: t.TempDir(), Programs: dir}, false, "legacy")
	cancel()
	if len(r.Candidates) != 2 || r.Candidates[0].Id != "legacy/old-agent" || r.Candidates[1].Pid != uint32(pid) ||
		r.Candidates[1].Version != "7.7" || !strings.HasPrefix(r.Candidates[1].Id, "process/") {
		t.Errorf("found %v", r.Candidates)
	}
	why := strings.Join(reasons(r), "\n")
	for _, part := range []string{"legacy: entry 3", "open: UNSAFE", "dpkg: ", "notes.txt: "} {
		if !strings.Contains(why, part) {
			t.Errorf("no %q in:\n%s", part, why)
		}
	}
}

// stuck is a detector that no context ends, as when the kernel does not answer.
type stuck struct{ released chan struct{} }

func (stuck) Name() string { return "stuck" }

func (s stuck) Detect(context.Context, *Scan) ([]*serverv1.Candidate, error) {
	<-s.released
	return nil, nil
}

func TestADetectorThatNeverReturnsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		defer close(released)
		ctx, cancel := context.WithTimeout(t.Context(), Within)
		defer cancel()
		c := &serverv1.Candidate{Id: "x/y", Name: "y"}
		found := gather(ctx, &Scan{}, []Detector{stuck{released}, stub{[]*serverv1.Candidate{c}}})
		if why := found[0].detection.Reason; !strings.Contains(why, "left behind") {
			t.Errorf("the stuck one: %q", why)
		}
		if len(found[1].candidates) != 1 || found[1].detection.Reason != "" {
			t.Errorf("the other one found %v: %s", found[1].candidates, found[1].detection.Reason)
		}
	})
}

// A disk that never answers would otherwise cost one more of each with every scan.
func TestDetectorsThatNeverReturnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		defer close(released)
		ctx, cancel := context.WithTimeout(t.Context(), Within)
		defer cancel()
		found := gather(ctx, &Scan{}, slices.Repeat([]Detector{stuck{released}}, mostAtWork+1))
		first, last := found[0].detection.Reason, found[mostAtWork].detection.Reason
		if !strings.Contains(first, "left behind") || !strings.Contains(last, "not begun") {
			t.Errorf("the first one: %q; the last one: %q", first, last)
		}
	})
	found := gather(t.Context(), &Scan{}, []Detector{stub{nil}})
	if why := found[0].detection.Reason; why != "" {
		t.Errorf("after they ended: %q", why)
	}
}

// TestManyArgumentsOfAProcessAreCut: any user can start a process with as many arguments as the kernel takes.
func TestManyArgumentsOfAProcessAreCut(t *testing.T) {
	args := append(slices.Repeat([]string{""}, 50_000), "x")
	cmd := exec.Command("/bin/sh", append([]string{"-c", "echo; read line", "sh"}, args...)...)
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
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it runs with its arguments
		t.Fatal(err)
	}
	if p := read(cmd.Process.Pid); p == nil || len(p.args) > maxArgs+1 {
		t.Errorf("%d arguments are kept; want %d at most", len(p.args), maxArgs+1)
	}
}

// TestWhatADetectorLeavesIsEnded: a scan would add a process to the server each time.
func TestWhatADetectorLeavesIsEnded(t *testing.T) {
	dir, left := detectors(t), filepath.Join(t.TempDir(), "pid")
	write(t, dir, "forks", "#!/bin/sh\nsleep 600 &\necho $! >"+left+"\n"+
		"echo '{\"kind\": \"tree\", \"name\": \"y\"}'\n", 0o755)
	if r := run(t, Config{Root: t.TempDir(), Programs: dir}, false, "forks"); len(r.Candidates) != 1 {
		t.Errorf("found %v: %v", r.Candidates, reasons(r))
	}
	data, err := os.ReadFile(left)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid == 0 {
		t.Fatalf("%q %v", data, err)
	}
	polltest.Eventually(t, "the process that it left ended", func() bool {
		_, runs := proctree.StartTime(pid)
		return !runs
	})
}

func TestADetectorThatHangsOrFloodsCostsOnlyItself(t *testing.T) {
	dir := detectors(t)
	write(t, dir, "flood", "#!/bin/sh\nyes '{\"kind\": \"tree\", \"name\": \"x\"}'\n", 0o755)
	write(t, dir, "fails", "#!/bin/sh\necho broken >&2\nexit 3\n", 0o755)
	write(t, dir, "fine", "#!/bin/sh\necho '{\"kind\": \"tree\", \"name\": \"y\"}'\n", 0o755)
	r := run(t, Config{Root: t.TempDir(), Programs: dir}, false, "flood", "fails", "fine")
	if got := lines(r); !slices.Equal(got, []string{"fine/y  []"}) {
		t.Errorf("found %v", got)
	}
	why := strings.Join(reasons(r), "\n")
	if !strings.Contains(why, "printed more than") || !strings.Contains(why, "exit status 3 broken") {
		t.Errorf("reasons:\n%s", why)
	}
}
