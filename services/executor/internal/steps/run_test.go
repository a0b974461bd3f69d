package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

func TestAFullDiskIsNamedOnceByThePathThatItIsAt(t *testing.T) {
	at := func(path string) error { return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a file": {
			fmt.Errorf("unpack /r/images/d/app: %w", at("/r/images/d/app")),
			"no space left on device at /r/images/d/app",
		},
		"a temporary one": {
			fmt.Errorf("write /r/cache/7: %w", errors.Join(at("/r/cache/.garrison-tmp-42"), errors.New("close"))),
			"no space left on device at /r/cache",
		},
		"no path": {fmt.Errorf("reserve: %w", syscall.ENOSPC), "reserve: no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Failure(taskv1.Step_STEP_FETCH, c.err)
			if f.Code != "NO_SPACE" || f.Reason != c.want {
				t.Errorf("%s: %q, want %q", f.Code, f.Reason, c.want)
			}
		})
	}
}

func TestAFailureOfTheFileSystemHasACodeOfItsOwn(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EROFS: "ROOT_READ_ONLY", syscall.EXDEV: "OTHER_FILE_SYSTEM", syscall.ENOTDIR: "INTERNAL",
		syscall.EIO: "ROOT_FAULTY", syscall.ESTALE: "ROOT_FAULTY", syscall.EDQUOT: "NO_SPACE",
	} {
		moved := fmt.Errorf("move: %w", &os.LinkError{Op: "rename", Old: "/r/agents/a", New: "/r/agents/b", Err: err})
		if f := Failure(taskv1.Step_STEP_COMMIT, moved); f.Code != want || !strings.Contains(f.Reason, "/r/agents/a") {
			t.Errorf("%v: %s, %q; want %s", err, f.Code, f.Reason, want)
		}
	}
}

// An agent chooses the status line and the output of its health check; root reads the reason on a terminal.
func TestAReasonHasNothingThatSteersTheTerminal(t *testing.T) {
	const hostile = "502 \x1b[2J\a\u009b31m\u202e\u2028\r\nbad"
	for _, err := range []error{errors.New(hostile), refuse("NOT_READY", "it was not ready: %s", hostile)} {
		f := Failure(taskv1.Step_STEP_PROVE, err)
		if strings.ContainsFunc(f.Reason, visible.Steers) || !strings.HasSuffix(f.Reason, "502 [2J31m; bad") {
			t.Errorf("%q", f.Reason)
		}
	}
}
