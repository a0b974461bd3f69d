package rollouts

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// slow is a replay that ends after a time, or with its context.
func slow(after time.Duration) replayer {
	return func(ctx context.Context, at *progress) (*registryv1.ReplayRolloutResponse, error) {
		at.until.Store(100)
		for read := range 100 {
			at.read.Store(uint64(read))
			select {
			case <-time.After(after / 100):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return &registryv1.ReplayRolloutResponse{Recorded: 7}, nil
	}
}

func TestAReplayThatTakesLongGoesOnWhileItsClientPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := &replaying{}, time.Now()
		for polls, last := 0, uint64(0); ; polls++ {
			r, err := p.poll(t.Context(), "a", slow(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if r.ReadUntil == 0 {
				if polls < 10 || r.Recorded != 7 {
					t.Errorf("after %d requests: %v", polls, r)
				}
				break
			}
			if r.ReadUntil != 100 || r.Read < last {
				t.Fatalf("after fact %d: %v", last, r)
			}
			last = r.Read
		}
		if took := time.Since(began); took > 61*time.Second {
			t.Errorf("it took %v; want one replay of a minute", took)
		}
		if r, err := p.poll(t.Context(), "a", slow(time.Hour)); err != nil || r.Recorded != 7 {
			t.Errorf("asked again because the answer was lost: %v, %v", r, err)
		}
		time.Sleep(pollAgain)
		synctest.Wait()
		if r, err := p.poll(t.Context(), "a", slow(time.Hour)); err != nil || r.ReadUntil == 0 {
			t.Errorf("asked again later: %v, %v; want another replay", r, err)
		}
		time.Sleep(2 * pollAgain) // it ends with the test
	})
}

func TestAReplayThatNoClientAsksForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &replaying{}
		if r, err := p.poll(t.Context(), "a", slow(time.Hour)); err != nil || r.ReadUntil == 0 {
			t.Fatalf("begun: %v, %v", r, err)
		}
		if r, err := p.poll(t.Context(), "b", slow(time.Second)); err == nil {
			t.Errorf("another one beside it: %v; want it refused", r)
		}
		time.Sleep(pollAgain)
		synctest.Wait()
		if r, err := p.poll(t.Context(), "b", slow(time.Second)); err != nil || r.Recorded != 7 {
			t.Errorf("another one after it ended: %v, %v", r, err)
		}
		time.Sleep(pollAgain)
	})
}
