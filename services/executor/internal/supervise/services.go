package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Services is a Supervisor that can take over services which it did not create.
type Services interface {
	// Service returns the service of a name. One that does not exist has no process.
	Service(name string) (Service, error)
	// TakeService returns a unit that has an adopted service. Its Start starts the service, not the image's program.
	// Its Stop also keeps the service from starting with the machine, and a later Start undoes that.
	TakeService(s Spec, is change.Adoption, log zerolog.Logger, changed func()) Unit
}

// Service is a service of this server's init.
type Service struct {
	Name        string   // its own, which may differ from the alias that was asked for
	Pid         int      // its main process; 0 when none runs
	Enabled     bool     // it starts with the machine
	Transient   bool     // it has no file: once it is stopped, nothing can start it again
	TriggeredBy []string // units that start it when something happens, such as sockets
	Returns     string   // why it starts again although it was stopped and disabled; empty when it does not
}

// Restorer is a Unit whose Stop changes more than that it runs.
type Restorer interface {
	// Restore makes the next Start undo that as well.
	Restore()
}

// Drifting is a Unit whose settings on the server may change.
type Drifting interface {
	// Drift returns what was changed, or "".
	Drift() string
}

// Forgetter is a Unit that follows its process after Leave.
type Forgetter interface {
	// Forget ends that. The unit must no longer be used.
	Forget()
}

// Guest is a Unit whose process another program may have started.
type Guest interface {
	// IsGuest reports whether another program started the process that runs.
	IsGuest() bool
}

// Present is a Unit whose process was adopted, and may have been replaced since by a supervisor that is not Garrison.
type Present interface {
	// Adoption returns the adoption with the process that runs now.
	Adoption() *change.Adoption
}

// Renew returns an adoption with the process that runs in the place of the adopted one, compared with a program.
func Renew(is change.Adoption, pid int, program string) (change.Adoption, error) {
	start, ok := proctree.StartTime(pid)
	if !ok {
		return is, fmt.Errorf("process %d ended", pid)
	}
	exe := filepath.Join("/proc", strconv.Itoa(pid), "exe")
	runs, err := Digest(context.Background(), exe)
	if err != nil {
		return is, fmt.Errorf("read the program of process %d: %w", pid, err)
	}
	image, err := Digest(context.Background(), program)
	if err != nil {
		return is, fmt.Errorf("read the program of the image: %w", err)
	}
	is.Exe = executable(pid, is.Exe)
	is.Pid, is.Start, is.Boot = pid, start, proctree.BootID()
	is.ExeSHA256, is.Same = runs, bytes.Equal(runs, image)
	return is, nil
}

// Runs reports whether the process of an adoption runs the program that was compared. A process that systemd starts is
// systemd itself until it executes the program, under the same id and start time.
func Runs(is *change.Adoption) bool { return executable(is.Pid, "") == is.Exe }

// executable returns the path of the program that a process runs, or other when it cannot be read.
func executable(pid int, other string) string {
	path, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return other
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// Digest returns the sha256 of a file.
func Digest(ctx context.Context, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	for {
		_, err := io.CopyN(sum, f, 4<<20)
		switch {
		case errors.Is(err, io.EOF):
			return sum.Sum(nil), nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}
