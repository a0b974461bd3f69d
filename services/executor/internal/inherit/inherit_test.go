package inherit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/hangup"
)

// executorVariable makes a test binary an executor that prints what a program inherits from it.
const executorVariable = "GARRISON_TEST_INHERIT"

func TestMain(m *testing.M) {
	if os.Getenv(executorVariable) == "" {
		os.Exit(m.Run())
	}
	hangup.Handle(func() {}) // as the executor does
	Process()
	agent := exec.Command("sh", "-c", `umask; nice; 
		until grep -qx 0 /proc/$$/oom_score_adj; do sleep 0.01; done; cat /proc/$$/oom_score_adj
		grep -E "Sig(Blk|Ign)" /proc/self/status; readlink /proc/$$/fd/0`)
	agent.Stdout = os.Stdout
	if err := Start(agent); err != nil {
		fmt.Println(err)
	}
	_ = agent.Wait()
	runtime.LockOSThread()
	now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	fmt.Println("its own nice:", 20-now)
}

// withoutInternal clears the internal signals from the ignored ones of a status.
func withoutInternal(status string) string {
	before, rest, found := strings.Cut(status, "SigIgn: ")
	mask, after, _ := strings.Cut(rest, "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	if !found || err != nil {
		return status
	}
	return fmt.Sprintf("%sSigIgn: %016x\n%s", before, ignored&^uint64(Internal), after)
}

func TestAProgramInheritsTheTableWhateverTheExecutorIsStartedWith(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may lower nice and the score")
	}
	const none = "0000000000000000"
	want := strings.Join([]string{"0022", "0", "0", "SigBlk: " + none, "SigIgn: " + none, "/dev/null", ""}, "\n")
	for name, prepare := range map[string]string{
		"as it is": "",
		"changed": `umask 000; echo 300 >/proc/$$/oom_score_adj; trap "" HUP INT TSTP TTIN PIPE QUIT;
			renice 5 $$ >/dev/null;`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtime.LockOSThread() // and never unlocked: the thread ends with the test
			block := unix.Sigset_t{}
			block.Val[0] = 1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGTERM-1)
			if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, nil); err != nil {
				t.Fatal(err)
			}
			executor := exec.Command("sh", "-c", prepare+` exec "$0"`, os.Args[0])
			executor.Env = append(os.Environ(), executorVariable+"=1")
			out, err := executor.Output()
			have := withoutInternal(strings.ReplaceAll(string(out), "\t", " "))
			if agent, own, _ := strings.Cut(have, "its own"); err != nil || agent != want {
				t.Errorf("%v:\n%s\nwant\n%s", err, agent, want)
			} else if name == "changed" && own != " nice: 5\n" {
				t.Errorf("the executor has%s", own)
			}
		})
	}
}
