package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// decideWithin bounds the wait for an intent's decision, askWait one question for it.
	decideWithin = 30 * time.Second
	askWait      = 4 * time.Second
)

// workFlags are what every verb that changes servers understands.
type workFlags struct {
	on      []string
	detach  bool
	timeout time.Duration
	dryRun  bool
	yes     bool
}

func (w *workFlags) add(c *cobra.Command, selector bool) {
	if selector {
		c.Flags().StringArrayVar(&w.on, "on", nil, selectorHelp)
	}
	c.Flags().BoolVar(&w.detach, "detach", false, "do not watch; the work goes on")
	timeVar(c.Flags(), &w.timeout, "timeout", time.Hour, 0, "stop watching after this time, with exit code 7; the work goes on")
	c.Flags().BoolVar(&w.dryRun, "dry-run", false, "let the service check everything, and change nothing")
}

func (w *workFlags) addYes(c *cobra.Command) {
	c.Flags().BoolVarP(&w.yes, "yes", "y", false, "do not ask")
}

// order is an intent that is to be published, and what became of it.
type order struct {
	verb    string
	intent  *intentv1.Intent
	on      *intentv1.Selector
	agent   string
	dying   string               // the server that ends with it
	without string               // what is done when it takes no task
	undo    func(order) []string // what undoes it, when that is not the version before

	id     string
	record *intentv1.Record
}

// work publishes intents, prints what was decided, and watches until the end.
func (s *session) work(ctx context.Context, w workFlags, orders ...order) error {
	check := prints(s, taskListing)
	if w.dryRun || w.detach {
		check = prints(s, recordListing)
	}
	if err := check(nil, nil); err != nil {
		return err
	}
	for i := range orders {
		orders[i].intent.DryRun = w.dryRun
		if err := s.decide(ctx, &orders[i]); err != nil {
			return err
		}
		s.say("%s", decidedText(orders[i]))
	}
	switch {
	case w.dryRun:
		return s.showRecords(orders)
	case w.detach:
		for _, o := range orders {
			s.say("to come back: garrison task list --intent %s", o.id)
			if o.undo != nil {
				s.sayUndo(o.undo(o))
			}
		}
		return s.showRecords(orders)
	}
	return s.watch(ctx, w, orders)
}

// decide publishes an intent and waits until the registry has answered. A refusal is an error.
func (s *session) decide(ctx context.Context, o *order) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	data, err := proto.Marshal(o.intent)
	if err != nil {
		return fmt.Errorf("write intent: %w", err)
	}
	o.id = ident.New()
	_, err = conn.PublishDurable(ctx, bus.Durable{Subject: topology.IntentSubject(o.verb, conn.Name(), o.id), ID: o.id, Data: data})
	if err != nil {
		return firstError(context.Cause(ctx), err)
	}
	if o.record, err = s.awaitDecision(ctx, o.id); err != nil {
		return err
	}
	switch o.record.GetState() {
	case intentv1.State_STATE_REFUSED:
		return refusedIntent(takenForChannel(o))
	case intentv1.State_STATE_WITHDRAWN:
		return fmt.Errorf("intent %s was withdrawn", o.id)
	}
	return nil
}

func (s *session) awaitDecision(ctx context.Context, id string) (*intentv1.Record, error) {
	for end := s.now().Add(decideWithin); ; {
		r, err := s.getIntent(ctx, id, askWait)
		if err == nil && r.GetState() != intentv1.State_STATE_UNSPECIFIED {
			return r, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
			return nil, err
		}
		if s.now().After(end) {
			s.say("the intent is stored and will be decided; to come back: garrison intent show %s", id)
			return nil, exit{code: exitTimeout, err: fmt.Errorf("no decision about intent %s within %s (last: %w)", id, decideWithin, firstError(err, errors.New("undecided")))}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, s.left(ctx, err, "garrison intent show "+id)
		}
	}
}

// getIntent asks what became of an intent.
func (s *session) getIntent(ctx context.Context, id string, wait time.Duration) (*intentv1.Record, error) {
	q := &registryv1.GetIntentRequest{IntentId: id}
	if wait > 0 {
		q.Wait = durationpb.New(wait)
	}
	r, err := call[*registryv1.GetIntentResponse](ctx, s, "GetIntent", q)
	return r.GetIntent(), err
}

// decidedText says what the registry decided.
func decidedText(o order) string {
	r := o.record
	text := fmt.Sprintf("accepted: %s changes %s", strings.TrimSpace(o.verb+" "+o.agent), plural(int(r.GetChanged()), "server"))
	if o.intent.GetDryRun() {
		text = strings.Replace(text, "accepted: ", "dry run: ", 1)
		text = strings.Replace(text, " changes ", " would change ", 1)
	}
	var more []string
	if r.GetAlready() > 0 {
		more = append(more, fmt.Sprintf("%d already so", r.GetAlready()))
	}
	if r.GetPassedOver() > 0 {
		more = append(more, fmt.Sprintf("%d passed over without the agent", r.GetPassedOver()))
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text + "; intent " + o.id
}

func (s *session) showRecords(orders []order) error {
	records := make([]record, len(orders))
	for i, o := range orders {
		records[i] = o.record
	}
	if len(records) == 1 && !s.output.isTable() {
		return showOne(s, s.view(), recordListing, records[0])
	}
	return show(s, recordListing, records, records)
}

// confirm asks a person. Without a terminal only --yes answers.
func (s *session) confirm(ctx context.Context, w workFlags, question string) error {
	if w.yes {
		return nil
	}
	if !isTerminal(s.in) {
		return usage("this changes servers and nobody can be asked, since the input is not a terminal. Try: --yes, or --dry-run to look")
	}
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(s.in).ReadString('\n') // no answer is a no
		answered <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case <-ctx.Done(): // Ctrl-C; the reader ends with the process
		s.say("")
		return context.Cause(ctx)
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return exit{code: exitError, err: errors.New("not confirmed; nothing was changed")}
}
