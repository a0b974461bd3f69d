package metrics

// Kind is what a metric is to Prometheus.
type Kind string

// The kinds.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// Metric is one metric.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string // service is the first, for those of services
	Help   string
}

// The names of the metrics.
const (
	BuildInfo    = "garrison_build_info"
	BusConnected = "garrison_bus_connected"

	FoldReady    = "garrison_fold_ready"
	FoldPosition = "garrison_fold_position"
	FoldLag      = "garrison_fold_lag_facts"
	FoldUnread   = "garrison_fold_unread_facts"
	FoldUnfit    = "garrison_fold_unfit_facts"

	Appends       = "garrison_appends_total"
	AppendedFacts = "garrison_appended_facts_total"
	AppendSeconds = "garrison_append_seconds"
	QueueDepth    = "garrison_queue_depth"

	TasksEnded  = "garrison_tasks_ended_total"
	TaskSeconds = "garrison_task_step_seconds"
	TasksOpen   = "garrison_tasks_open"

	Servers         = "garrison_servers"
	ServersStanding = "garrison_servers_standing"
	Instances       = "garrison_instances"

	BusServers    = "garrison_bus_servers"
	BusMessages   = "garrison_bus_stream_messages"
	BusBytes      = "garrison_bus_stream_bytes"
	BusReplicaLag = "garrison_bus_stream_replica_lag"
	BusAlarms     = "garrison_bus_alarms"
	BusFree       = "garrison_bus_free_bytes"
	HTTPRequests  = "garrison_http_requests_total"
	HTTPTokens    = "garrison_http_tokens"

	WebhookDeliveries = "garrison_webhook_deliveries_total"
	WebhookState      = "garrison_webhook_state"
	WebhookLag        = "garrison_webhook_lag_seconds"

	ExecutorState  = "garrison_executor_state"
	ExecutorBus    = "garrison_executor_connected"
	ExecutorOutbox = "garrison_executor_outbox_reports"
	ExecutorAgents = "garrison_executor_agents"
	ExecutorAt     = "garrison_executor_document_generation"
)

// All lists the metrics, in the order of the page that documents them.
var All = []Metric{
	{BuildInfo, Gauge, []string{"version"}, "1, with the version of the program."},
	{BusConnected, Gauge, []string{"service"}, "1 while the bus accepts the service."},
	{FoldReady, Gauge, []string{"service"}, "1 once the view holds what the ledger held when the service started."},
	{FoldPosition, Gauge, []string{"service"}, "The sequence of the last fact of the view."},
	{FoldLag, Gauge, []string{"service"}, "How many facts of the ledger the view does not hold yet."},
	{FoldUnread, Gauge, []string{"service"},
		"Facts of the view's nouns that this program cannot read; it is too old."},
	{FoldUnfit, Gauge, []string{"service"}, "Facts that did not fit the view."},
	{Appends, Counter, []string{"service", "result"},
		"Decisions that were recorded (stored), lost to another (conflict), refused, or left open (unavailable)."},
	{AppendedFacts, Counter, []string{"service"}, "Facts that were recorded."},
	{AppendSeconds, Histogram, []string{"service"}, "How long recording a decision took, in seconds."},
	{QueueDepth, Gauge, []string{"service", "queue"}, "How much waits in a queue of the service."},
	{TasksOpen, Gauge, []string{"service", "state"},
		"Tasks that are queued, those under way on a server (under-way), and those that it deferred (deferred)."},
	{TasksEnded, Counter, []string{"service", "outcome", "code"},
		"Tasks that ended while this process ran, by outcome and by the code of a failure."},
	{TaskSeconds, Histogram, []string{"service", "step"}, "How long a step of a task took on its server, in seconds."},
	{Servers, Gauge, []string{"service", "presence"}, "Servers under management by presence: online, late, offline."},
	{ServersStanding, Gauge, []string{"service", "standing"},
		"Servers under management by whether they are believed."},
	{Instances, Gauge, []string{"service", "health"}, "Instances by the health that was found."},
	{BusServers, Gauge, []string{"service", "answers"}, "Servers of the bus, by whether they answer."},
	{BusMessages, Gauge, []string{"service", "stream"}, "Messages of a stream."},
	{BusBytes, Gauge, []string{"service", "stream"}, "Bytes of a stream."},
	{BusReplicaLag, Gauge, []string{"service", "stream"}, "Messages that the last replica of a stream lacks."},
	{BusAlarms, Gauge, []string{"service", "cause"}, "What is wrong with the bus, as garrison bus names it."},
	{
		BusFree, Gauge, []string{"service"},
		"Bytes that garrisond's disk, or the fullest limited server of the bus, may still store.",
	},
	{HTTPRequests, Counter, []string{"service", "code"},
		"Requests over HTTP that called a method, by the code of Connect; ok for those that succeeded."},
	{HTTPTokens, Gauge, []string{"service"}, "Bearer tokens that were used within the last minute."},
	{WebhookDeliveries, Counter, []string{"service", "route", "result"},
		"Facts that the target of a webhook took (delivered), attempts that failed, and dead letters."},
	{WebhookState, Gauge, []string{"service", "route", "state"},
		"1 for the state of a webhook: running, retrying, disabled by its target, cut-off from the bus; " +
			"refused: its file."},
	{WebhookLag, Gauge, []string{"service", "route"}, "How long ago the fact was stored that waits for its target."},
	{ExecutorState, Gauge, []string{"state"}, "1 for the state of the executor."},
	{ExecutorBus, Gauge, nil, "1 while the executor is connected to the bus."},
	{ExecutorOutbox, Gauge, nil, "Reports that wait for the bus."},
	{ExecutorAgents, Gauge, []string{"health"}, "Agents of the server by health."},
	{ExecutorAt, Gauge, nil, "The generation of the document that was applied last."},
}
