package engine

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

// The content of installed images is read all the time, slowly: a change that keeps a file's name, mode, size and time
// shows nowhere else. A round reads each image once. It aims at contentEvery, is never faster than quickContent to
// get there, and takes no longer than contentWithin unless it would have to read faster than fastContent.
const (
	contentEvery  = 45 * time.Second
	contentWithin = 30 * time.Minute
	quickContent  = 4 << 20  // bytes a second
	fastContent   = 64 << 20 // bytes a second
	leastContent  = 1 << 20  // bytes a second
)

// contentPace returns how many bytes a second a round reads of so many bytes.
func contentPace(total int64, every time.Duration) int64 {
	quick := min(total/max(1, int64(every/time.Second)), quickContent)
	whole := min(total/int64(contentWithin/time.Second), fastContent)
	return max(quick, whole, leastContent)
}

// readContent reads the content of installed images, round after round, until ctx is done.
func (e *Engine) readContent(ctx context.Context) {
	every := e.cfg.ContentEvery
	for {
		began := time.Now()
		e.readRound(ctx, every)
		if wakeup.Pause(ctx, max(every-time.Since(began), every/10)) != nil {
			return
		}
	}
}

// readRound reads each installed image once.
func (e *Engine) readRound(ctx context.Context, every time.Duration) {
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("content of images not read")
		return
	}
	agents, total := map[string]string{}, int64(0)
	for _, i := range in.Instances {
		if digest := string(i.Image.Digest()); digest != "" && agents[digest] == "" {
			agents[digest] = i.Agent
			total += e.rooms.images.SizeOf(i.Image.Digest())
		}
	}
	pace := rate.NewLimiter(rate.Limit(contentPace(total, every)), fastContent)
	pace.AllowN(time.Now(), fastContent) // begin without a burst
	for digest, agent := range agents {
		changed, err := e.rooms.images.CheckContent(ctx, []byte(digest), pace.WaitN)
		if err != nil {
			return // ctx is done
		}
		if changed {
			e.cfg.Log.Warn().Str(logs.Agent, agent).Msg("content of an installed image changed")
			e.changed.Wake()
		}
	}
}
