package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// The table of docs/processes.md, under each supervisor.
func TestAnAgentInheritsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may lower nice and the score")
	}
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "script", func(m *imagev1.Manifest) {
		m.Run.Command, m.Run.Args, m.Run.Ready = "bin/script", nil, &imagev1.Ready{SoakMs: 50}
	}))), good)
	pid := int(r.good("cn-agent", "1.0.0").GetPid())
	t.Cleanup(func() { p, _ := os.FindProcess(pid); _ = p.Kill() })
	s, err := proctree.Status(pid)
	if err != nil {
		t.Fatal(err)
	}
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(proctree.Path(pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	link := func(name string) string { return must(os.Readlink(proctree.Path(pid, name))) }
	ignored := must(strconv.ParseUint(s["SigIgn"], 16, 64)) &^ uint64(inherit.Internal)
	for what, c := range map[string]struct{ have, want string }{
		"umask":           {s["Umask"], fmt.Sprintf("%04o", inherit.Umask)},
		"nice":            {fmt.Sprint(20 - priority), fmt.Sprint(inherit.Nice)},
		"OOM score":       {read("oom_score_adj"), fmt.Sprint(inherit.OOMScore)},
		"blocked signals": {s["SigBlk"], fmt.Sprintf("%016x", 0)},
		"ignored signals": {fmt.Sprintf("%016x", ignored), fmt.Sprintf("%016x", 0)},
		"standard input":  {link("fd/0"), os.DevNull},
		"directory":       {link("cwd"), b.root.State("cn-agent")},
	} {
		if c.have != c.want {
			t.Errorf("%s: %s, want %s", what, c.have, c.want)
		}
	}
}
