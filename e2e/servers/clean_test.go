package servers_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// sshServer is a real sshd on the loopback address, with keys and a configuration of its own.
type sshServer struct {
	login, port, dir string
}

// startSSH starts an sshd that ends with the test. Without sshd on the machine the test is skipped.
func startSSH(t *testing.T) *sshServer {
	t.Helper()
	sshd := "/usr/sbin/sshd"
	for _, program := range []string{sshd, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: no %s on this machine: install openssh-server", program)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" && os.Mkdir("/run/sshd", 0o755) == nil { // without it, sshd does not start as root
		t.Cleanup(func() { _ = os.Remove("/run/sshd") })
	}
	port := scenario.FreePort(t)
	s := &sshServer{login: me.Username + "@127.0.0.1", port: port, dir: scenario.ShortDir(t)}
	for _, key := range []string{"host", "mine"} {
		keygen := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.path(key))
		if out, err := keygen.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s.write(
		t,
		"config",
		fmt.Sprintf(
			"ListenAddress 127.0.0.1:%s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\n"+
				"StrictModes no\nPasswordAuthentication no\n",
			port,
			s.path("host"),
			s.path("mine.pub"),
		),
	)
	s.knows(t, "known", "host")
	s.knows(t, "mistaken", "mine")
	cmd := exec.Command(sshd, "-D", "-e", "-f", s.path("config"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	scenario.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func (s *sshServer) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sshServer) write(t *testing.T, name, text string) {
	t.Helper()
	scenario.Must(t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// knows writes a file of known hosts that says that the server has a key.
func (s *sshServer) knows(t *testing.T, name, key string) {
	t.Helper()
	public, err := os.ReadFile(s.path(key + ".pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name, fmt.Sprintf("[127.0.0.1]:%s %s", s.port, public))
}

// command returns an ssh command that knows the key in a file of known hosts.
func (s *sshServer) command(known string) string {
	return fmt.Sprintf(
		"ssh -F none -p %s -i %s -o UserKnownHostsFile=%s "+
			"-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o BatchMode=yes",
		s.port,
		s.path("mine"),
		s.path(known),
	)
}

// abandon kills a server's executor for good and declares the server lost, while its agent runs.
func (w *world) abandon(s *rig.Server) {
	w.T.Helper()
	scenario.Must(w.T, s.Executor.Kill())
	w.Fails(8, "NOT_DEAD", "server", "clean", s.Name, "--ssh", "stranger@nowhere", "--yes")
	w.Eventually("it may be declared lost", func() error {
		_, err := w.CLI(w.T.Context(), "server", "decommission", s.Name, "--lost", "--yes")
		return err
	})
	w.stillRuns(s)
	if err := w.leaked(s.Name, true); err != nil {
		w.T.Error(err)
	}
}

func (w *world) stillRuns(s *rig.Server) {
	w.T.Helper()
	if pids, err := s.AgentProcesses(); err != nil || len(pids) != 1 {
		w.T.Fatalf("agents of %s: %v, %v; want one", s.Name, pids, err)
	}
}

// cleaned checks that nothing is left of a server, and that the ledger names who cleaned it.
func (w *world) cleaned(s *rig.Server, id, via string) {
	w.T.Helper()
	if pids, err := s.AgentProcesses(); err != nil || len(pids) > 0 {
		w.T.Errorf("agents of %s: %v, %v", s.Name, pids, err)
	}
	if err := scenario.NothingAt(s.Root); err != nil {
		w.T.Error(err)
	}
	if err := w.leaked(s.Name, false); err != nil {
		w.T.Error(err)
	}
	for _, f := range w.Facts() {
		if b, ok := f.Body.(*serverv1.Uninstalled); ok && f.Key == id {
			if b.GetVia() != via || b.GetRemoved() == 0 || b.GetLeft() != 0 || f.Actor != "operator" {
				w.T.Errorf("the fact of %s is %v", f.Actor, b)
			}
			return
		}
	}
	w.T.Errorf("no fact records that %s is uninstalled", s.Name)
}

func TestAnAbandonedServerIsCleanedOverSSH(t *testing.T) {
	t.Parallel()
	ssh := startSSH(t)
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	alpha, bravo := w.Servers[0], w.Servers[1]
	ids := map[string]string{}
	for _, s := range w.Servers {
		ids[s.Name] = strings.Fields(w.OK("server", "show", s.Name, "--columns", "id"))[1]
		w.abandon(s)
	}
	over := func(known string, s *rig.Server, more ...string) []string {
		return append(
			[]string{
				"server",
				"clean",
				s.Name,
				"--ssh",
				ssh.login,
				"--ssh-command",
				ssh.command(known),
				"--root",
				s.Root,
				"--yes",
			},
			more...)
	}
	program := filepath.Join(scenario.Bin, "executor")

	// A failed clean-up changes nothing and is recorded.
	w.Fails(1, "SSH_FAILED", over("mistaken", alpha, "--executor", program)...)
	w.Fails(1, "NO_PROGRAM", over("known", alpha, "--executor", "/nowhere/executor")...)
	w.Fails(1, "OTHER_TOMBSTONE", over("known", alpha, "--executor", program, "--root", bravo.Root)...)
	if shown := w.OK("server", "show", "alpha"); !strings.Contains(shown, "failed: OTHER_TOMBSTONE") {
		t.Errorf("the failure is not shown:\n%s", shown)
	}
	if would := w.OK(over("known", alpha, "--executor", program, "--dry-run")...); !strings.Contains(would,
		"agents/beacon") {
		t.Errorf("the dry run prints:\n%s", would)
	}
	w.stillRuns(alpha)
	w.stillRuns(bravo)

	// Its own program cleans it.
	w.OK(over("known", alpha, "--executor", program)...)
	w.cleaned(alpha, ids["alpha"], "ssh "+ssh.login)
	w.stillRuns(bravo)

	// Without the program on the server, one is uploaded, and removed afterwards.
	before, _ := filepath.Glob("/tmp/tmp.*") // where mktemp of the session creates it
	w.OK(over("known", bravo, "--upload", program)...)
	w.cleaned(bravo, ids["bravo"], "ssh "+ssh.login)
	if after, _ := filepath.Glob("/tmp/tmp.*"); len(after) > len(before) {
		t.Errorf("left at the temporary place: %v; was %v", after, before)
	}
	w.Servers = nil
	w.Holds()
	w.EqualViews()
}
