package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// The trial of a new executor, seen from itself.

// jury is whom this process, which is on trial, has to convince.
type jury struct {
	soak      time.Duration
	pipe      *os.File
	failPoint func(string)
}

// onTrial gives the jury when another executor started this process to try it, or nil.
func onTrial(cfg Config) (*jury, error) {
	v := os.Getenv(trialVariable)
	if v == "" {
		return nil, nil
	}
	soak, err := time.ParseDuration(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trialVariable, err)
	}
	unix.CloseOnExec(trialFile) // no agent gets it
	j := &jury{soak: soak, pipe: os.NewFile(trialFile, "trial"), failPoint: cfg.FailPoint}
	go j.dieWithIt()
	return j, nil
}

// dieWithIt ends this process when the one that tries it is gone: whoever is started in its
// place must find nobody. The kernel does the same, but only where it knows of parents.
func (j *jury) dieWithIt() {
	_, _ = io.Copy(io.Discard, j.pipe)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// soakEvery is how often it is looked whether the bus is still there.
const soakEvery = 20 * time.Millisecond

// convince works until everything that an executor must do was seen to work for the soak
// time, says so, and returns. The document is read again at the end.
func (j *jury) convince(ctx context.Context, e *engine.Engine, conn *bus.Conn, at topology.ServerAddress) error {
	select {
	case <-e.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		err := j.soakOnce(ctx, conn, at)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			break
		}
	}
	j.failPoint("convinced")
	if _, err := j.pipe.WriteString(provenWord); err != nil {
		return fmt.Errorf("say that it works: %w", err)
	}
	return nil
}

var errBusLeft = errors.New("the bus went away")

func (j *jury) soakOnce(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) error {
	if err := conn.WaitConnected(ctx); err != nil {
		return err
	}
	if err := j.read(ctx, conn, at); err != nil {
		return err
	}
	tick := time.NewTicker(min(soakEvery, max(j.soak, time.Millisecond)))
	defer tick.Stop()
	for end := time.Now().Add(j.soak); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !conn.Connected() {
			return errBusLeft
		}
	}
	return j.read(ctx, conn, at)
}

// readPause keeps a bus that answers with errors from being asked without a rest.
const readPause = 200 * time.Millisecond

func (j *jury) read(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) error {
	within, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
	defer cancel()
	_, err := link.Document(within, conn, at)
	if err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(readPause):
	}
	return err
}
