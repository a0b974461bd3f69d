package render

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of one rendering.
const (
	MaxOutput = 1 << 20         // bytes of the output, and of each text on the way to it
	maxMade   = 8 * MaxOutput   // bytes of all texts that functions make, which variables may keep
	maxSteps  = 20_000          // turns of loops, and calls of templates
	maxTime   = 5 * time.Second // an ordinary template takes milliseconds
)

var (
	errLarge = fmt.Errorf("the output is too large: %d bytes are the most", MaxOutput)
	errMade  = fmt.Errorf("it makes more than %d bytes of text on the way to its output", maxMade)
	errSteps = fmt.Errorf("it takes more than %d steps", maxSteps)
	errTime  = errors.New("it takes longer than " + maxTime.String())
)

// budget is what one rendering may still use. Its methods are the functions of a template.
type budget struct {
	steps, made int
	until       time.Time
	now         func() time.Time
}

func newBudget(now func() time.Time) *budget { return &budget{until: now().Add(maxTime), now: now} }

// step counts a turn of a loop, or a call of a template.
func (b *budget) step() (string, error) {
	if b.steps++; b.steps > maxSteps {
		return "", errSteps
	}
	return b.tick()
}

// tick is called before each action.
func (b *budget) tick() (string, error) {
	if b.now().After(b.until) {
		return "", errTime
	}
	return "", nil
}

// spend counts a text that was made.
func (b *budget) spend(bytes int) error {
	if b.made += bytes; b.made > maxMade {
		return errMade
	}
	_, err := b.tick()
	return err
}

// keep counts a text that was made and returns it, unless it is too large.
func (b *budget) keep(text string) (string, error) {
	if len(text) > MaxOutput {
		return "", errLarge
	}
	return text, b.spend(len(text))
}

// fits refuses arguments that are too large together, before a text is made of them.
func fits(args ...any) error {
	total := 0
	for _, a := range args {
		total += size(a)
	}
	if total > MaxOutput {
		return errLarge
	}
	return nil
}

// size returns how many bytes a value has at least when it is printed.
func size(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case map[string]string:
		for name, value := range v {
			n += len(name) + len(value)
		}
	case map[string]any:
		for name, value := range v {
			n += len(name) + size(value)
		}
	case []any:
		for _, value := range v {
			n += 1 + size(value)
		}
	}
	return n
}
