package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// Candidate is this process while another executor tries it.
type Candidate struct {
	soak      time.Duration
	pipe      *os.File
	failPoint func(string)
}

// OnTrial reports whether another executor started this process to try it.
func OnTrial() bool { return os.Getenv(trialVariable) != "" }

// onTrial returns this process as a candidate, or nil.
func onTrial(cfg Config) (*Candidate, error) {
	v := os.Getenv(trialVariable)
	if v == "" {
		return nil, nil
	}
	soak, err := time.ParseDuration(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trialVariable, err)
	}
	unix.CloseOnExec(trialFile) // no agent inherits it
	c := &Candidate{soak: soak, pipe: os.NewFile(trialFile, "trial"), failPoint: cfg.FailPoint}
	go c.dieWithParent()
	return c, nil
}

// dieWithParent ends this process when its parent is gone: the next start must not find another
// executor. Pdeathsig does the same, but not in every container.
func (c *Candidate) dieWithParent() {
	_, _ = io.Copy(io.Discard, c.pipe)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// soakEvery is how often the connection to the bus is checked.
const soakEvery = 20 * time.Millisecond

// Prove works until everything that an executor must do has worked for the soak time, reports that,
// and returns rungroup.ErrDone. It reads the document at the beginning and at the end.
func (c *Candidate) Prove(ctx context.Context, ready <-chan struct{}, conn *bus.Conn, at topology.ServerAddress) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		err := c.soakOnce(ctx, conn, at)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			break
		}
	}
	c.failPoint("convinced")
	if _, err := c.pipe.WriteString(provenReport); err != nil {
		return fmt.Errorf("report that it works: %w", err)
	}
	return rungroup.ErrDone
}

var errDisconnected = errors.New("disconnected from the bus")

func (c *Candidate) soakOnce(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) error {
	if err := conn.WaitConnected(ctx); err != nil {
		return err
	}
	if err := c.read(ctx, conn, at); err != nil {
		return err
	}
	tick := time.NewTicker(min(soakEvery, max(c.soak, time.Millisecond)))
	defer tick.Stop()
	for end := time.Now().Add(c.soak); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !conn.Connected() {
			return errDisconnected
		}
	}
	return c.read(ctx, conn, at)
}

// readPause is the pause after a failed reading.
const readPause = 200 * time.Millisecond

func (c *Candidate) read(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) error {
	within, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
	defer cancel()
	_, err := link.Document(within, conn, at)
	if err == nil {
		return nil
	}
	_ = wakeup.Pause(ctx, readPause)
	return err
}
