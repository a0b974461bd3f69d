package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/invariant"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// verify checks the ledger, the views and the processes while all is quiet.
func (w *World) verify(ctx context.Context) (facts int, wrong []string) {
	all, err := w.facts(ctx)
	if err != nil {
		return 0, []string{err.Error()}
	}
	w.mu.Lock()
	acknowledged := slices.Clone(w.acknowledged)
	w.mu.Unlock()
	for _, err := range invariant.Check(all, acknowledged) {
		wrong = append(wrong, err.Error())
	}
	return len(all), append(append(wrong, w.verifyViews(ctx)...), w.verifyProcesses()...)
}

// asksOfReplicas is how often a service is asked for its view: whichever replica is free answers.
const asksOfReplicas = 4

// verifyViews compares every service's live view with a fresh fold up to the same fact.
func (w *World) verifyViews(ctx context.Context) (wrong []string) {
	for _, service := range topology.Services {
		fresh := map[uint64][sha256.Size]byte{}
		for range asksOfReplicas {
			live, err := client.CallService[*apiv1.ViewResponse](ctx, w.client, service, &apiv1.ViewRequest{})
			if err != nil {
				wrong = append(wrong, err.Error())
				break
			}
			if _, ok := fresh[live.Position]; !ok {
				file := filepath.Join(w.Dir, service+".fold")
				_, err := w.View(ctx, service, live.Position, file)
				data, readErr := os.ReadFile(file)
				if err != nil || readErr != nil {
					wrong = append(wrong, fmt.Sprintf("fold %s afresh: %v, %v", service, err, readErr))
					break
				}
				fresh[live.Position] = sha256.Sum256(data)
			}
			if want := fresh[live.Position]; !bytes.Equal(live.Digest, want[:]) {
				wrong = append(wrong,
					fmt.Sprintf("%s: the live view at %d is not what a fresh fold makes", service, live.Position))
			}
		}
	}
	return wrong
}

// Bounds of a process of the control plane. A leak passes them after some rounds.
const (
	maxDescriptors = 300
	maxThreads     = 100
	maxResidentKiB = 600 << 10
)

// usage is what a process uses.
type usage struct{ descriptors, threads, residentKiB int }

// use returns what a process uses; nothing when it does not run.
func use(p *fleet.Process) (u usage) {
	dir := fmt.Sprintf("/proc/%d", p.Pid())
	files, _ := os.ReadDir(dir + "/fd")
	u.descriptors = len(files)
	status, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d", &u.residentKiB)
		_, _ = fmt.Sscanf(line, "Threads: %d", &u.threads)
	}
	return u
}

func (w *World) verifyProcesses() (wrong []string) {
	for _, p := range append(w.processes(), w.executors()...) {
		u := use(p)
		switch {
		case u.descriptors == 0:
			wrong = append(wrong, p.Name+" does not run")
		case u.descriptors > maxDescriptors || u.threads > maxThreads || u.residentKiB > maxResidentKiB:
			wrong = append(
				wrong,
				fmt.Sprintf("%s uses %d descriptors, %d threads, %d KiB", p.Name, u.descriptors, u.threads,
					u.residentKiB),
			)
		}
	}
	return wrong
}
