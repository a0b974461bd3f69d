package selfupdate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

const (
	busWithin      = 10 * time.Second // wait for an unreachable bus
	rehearseWithin = 30 * time.Second
)

// Rehearsal is what an executor shows before it may replace another one.
type Rehearsal struct {
	Version  string           `json:"version"`
	Journal  journal.Contents `json:"journal"`
	Document uint64           `json:"document"` // its generation; 0 without a document
}

// Examine reads all of a journal, which must be a copy, and the generation of the server's document.
// It changes nothing else.
func Examine(copied string, document func() (uint64, error)) (Rehearsal, error) {
	r := Rehearsal{Version: version.Version}
	j, err := journal.OpenWhole(copied) // an empty one would pass
	if err != nil {
		return r, err
	}
	defer func() { _ = j.Close() }()
	if r.Journal, err = j.Examine(); err == nil {
		r.Document, err = document()
	}
	return r, err
}

// Rehearse has a program show, beside this one, that it reads the journal and reaches the bus.
func (p *Process) Rehearse(ctx context.Context, program string) error {
	if err := p.needBus(ctx); err != nil {
		return err
	}
	copied := p.cfg.Root.Rehearsal()
	defer func() { _ = os.Remove(copied) }()
	if err := p.journal.CopyTo(copied); err != nil {
		return err
	}
	p.cfg.FailPoint("journal copied")
	within, cancel := context.WithTimeout(ctx, rehearseWithin)
	defer cancel()
	args := []string{"rehearse", "--root", string(p.cfg.Root), "--journal", copied}
	if p.cfg.URL != "" {
		args = append(args, "--bus", p.cfg.URL)
	}
	cmd := exec.CommandContext(within, program, args...)
	var answer, output lastOutput
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&answer, &output), &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var r Rehearsal
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(answer.Bytes()), &r)
	}
	if within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it did not end within %s", rehearseWithin)
	}
	if err != nil && ctx.Err() == nil {
		return refuse(code.RehearsalFailed, "the new executor did not pass its rehearsal: %v%s", err,
			output.because())
	}
	p.cfg.Log.Info().Str(logs.Version, r.Version).Uint64("generation", r.Document).Msg("new executor rehearsed")
	return err
}

// needBus waits for the bus: without it a new executor cannot show that it reaches it.
func (p *Process) needBus(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	if err := p.conn.WaitConnected(within); err != nil {
		return refuse(code.NeedsBus, "the bus is unreachable, so a new executor cannot show that it reaches it")
	}
	return nil
}

func refuse(reason, format string, args ...any) error {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")
	return fault.Refusef(fault.Invalid, reason, "%s", text).From("executor")
}
