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
	servers selectorFlags
	strict  bool
	detach  bool
	timeout time.Duration
	dryRun  bool
	yes     bool
}

func (w *workFlags) add(c *cobra.Command, selector bool) {
	if selector {
		w.servers.add(c)
		w.addStrict(c)
	}
	c.Flags().BoolVar(&w.detach, "detach", false, "do not watch; the work goes on")
	timeVar(c.Flags(), &w.timeout, "timeout", time.Hour, 0, "stop watching after this time, with exit code 7; the work goes on")
	c.Flags().BoolVar(&w.dryRun, "dry-run", false, "let the service check everything, and change nothing")
}

func (w *workFlags) addStrict(c *cobra.Command) {
	c.Flags().BoolVar(&w.strict, "strict", false, "do nothing at all when a server must be left out")
}

// selector reads which servers are meant.
func (w *workFlags) selector() (*intentv1.Selector, error) { return w.servers.selector() }

func (w *workFlags) addYes(c *cobra.Command) {
	c.Flags().BoolVarP(&w.yes, "yes", "y", false, "do not ask")
}

// order is an intent that is to be published, and what became of it.
type order struct {
	verb    string
	intent  *intentv1.Intent
	agent   string
	dying   string // the server that ends with it
	without string // what is done when it takes no task

	id     string
	record *intentv1.Record
}

// work publishes an intent that needs no plan, prints what was decided, and watches until the end.
func (s *session) work(ctx context.Context, w workFlags, o order) error {
	if err := printsWork(s, w); err != nil {
		return err
	}
	o.intent.DryRun, o.intent.Strict = w.dryRun, w.strict
	if err := s.decide(ctx, &o); err != nil {
		return err
	}
	s.say("%s", decidedText(o))
	if w.dryRun {
		return s.showRecords([]order{o})
	}
	return s.followWork(ctx, w, []order{o})
}

// printsWork checks that what the work ends with can be printed as it is asked for.
func printsWork(s *session, w workFlags) error {
	if w.dryRun || w.detach {
		return prints(s, recordListing)(nil, nil)
	}
	return prints(s, taskListing)(nil, nil)
}

// followWork watches intents that were accepted, or says how to come back to them.
func (s *session) followWork(ctx context.Context, w workFlags, orders []order) error {
	if !w.detach {
		return s.watch(ctx, w, orders)
	}
	for _, o := range orders {
		s.say("to come back: garrison task list --intent %s", o.id)
		s.sayUndo(o)
	}
	return s.showRecords(orders)
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
		return refusedIntent(takenForChannel(o.intent, o.record.GetRefusal()))
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
	verb := "accepted: " + strings.TrimSpace(o.verb+" "+o.agent) + " changes "
	if o.intent.GetDryRun() {
		verb = "dry run: " + strings.TrimSpace(o.verb+" "+o.agent) + " would change "
	}
	return verb + plural(int(r.GetChanged()), "server") +
		countsText(r.GetAlready(), r.GetPassedOver(), r.GetLeftOut()) + "; intent " + o.id
}

// askText says what an intent asks for in a word, and of which agent.
func askText(i *intentv1.Intent, agent string) string {
	ask := i.ProtoReflect().WhichOneof(i.ProtoReflect().Descriptor().Oneofs().ByName("ask"))
	if ask == nil {
		return agent
	}
	return strings.TrimSpace(string(ask.Name()) + " " + agent)
}

// countsText says in brackets what does not change.
func countsText(already, passedOver, leftOut uint32) string {
	var more []string
	if already > 0 {
		more = append(more, fmt.Sprintf("%d already so", already))
	}
	if passedOver > 0 {
		more = append(more, fmt.Sprintf("%d passed over", passedOver))
	}
	if leftOut > 0 {
		more = append(more, fmt.Sprintf("%d left out", leftOut))
	}
	if len(more) == 0 {
		return ""
	}
	return " (" + strings.Join(more, ", ") + ")"
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
