package attack

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/e2e/sample"
)

// upgradeWithin bounds one upgrade of the victim: an attack that holds it up for longer succeeded. Beside other tests,
// the machine alone may hold it up.
func upgradeWithin() time.Duration {
	if *full {
		return 30 * time.Second
	}
	return 2 * time.Minute
}

// measure runs a flood and returns what it costs: upgrades of the victim without it and
// with it, and the memory of the control plane before, at most and after.
func (t *trial) measure(flood func(context.Context, *trial)) string {
	t.Helper()
	without := t.upgrades(floodFor())
	memory := t.sample()
	ctx, cancel := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	flooding.Go(func() { flood(ctx, t) })
	defer flooding.Wait()
	defer cancel()                     // also when an upgrade fails
	time.Sleep(200 * time.Millisecond) // until it is at its height
	with := t.upgrades(floodFor())
	cancel()
	flooding.Wait()
	return fmt.Sprintf("upgrades of another server %s -> %s; MiB %s", spread(without), spread(with), memory())
}

// upgrades upgrades the victim again and again for d, and returns how long each took.
func (t *trial) upgrades(d time.Duration) (took []time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), upgradeWithin())
		err := t.upgrade(ctx)
		cancel()
		if err != nil {
			t.Fatalf("another server's upgrade: %v", err)
		}
		took = append(took, time.Since(started))
	}
	return took
}

// upgrade moves the victim to the other version and waits until it is healthy there.
func (t *trial) upgrade(ctx context.Context) error {
	next := map[string]string{"1.0.0": "2.0.0", "2.0.0": "1.0.0"}[t.at]
	t.at = next // also when it fails: then the next one goes back
	r, err := t.operator.Submit(ctx, &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: sample.Agent, Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: next}},
		On: &intentv1.Selector{Servers: []string{t.victim.Name}},
	}}})
	if err != nil {
		return err
	}
	for {
		p, err := t.operator.Progress(ctx, 1, r.GetId())
		if err == nil && p.Ended() {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("intent %s has not ended: %w (%v, last error %w)", r.GetId(), ctx.Err(), p, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if got, err := t.victim.Get(ctx, "/"); err != nil || got != next {
		return fmt.Errorf("the agent answers %q (%w), want %s", got, err, next)
	}
	return nil
}

// sample watches the memory of the control plane until the function that it returns is called.
func (w *world) sample() (stop func() string) {
	before := w.residentMiB()
	most := before
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				most = max(most, w.residentMiB())
			}
		}
	}()
	return func() string {
		close(done)
		<-ended
		return fmt.Sprintf("%d, at most %d, after %d", before, most, w.residentMiB())
	}
}

// spread prints the median and the 99th percentile, which of fewer than 100 is the longest.
func spread(took []time.Duration) string {
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[min(len(took)-1, len(took)*percent/100)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v p99 %v (n=%d)", at(50), at(99), len(took))
}
