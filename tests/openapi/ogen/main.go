// A client that ogen generates from the agent's description, beside a real agent over real masters:
// ogen AGENT, where AGENT is like http://127.0.0.1:8080. The last line is `N passed, N failed`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ogen-go/ogen/ogenerrors"

	"lockagent/tests/openapi/ogen/client"
)

const key = "generated/a key, of blanks & ümlauts" // all that has to be escaped in a path

var passed, failed int

func see(what string, is bool, got ...any) {
	if is {
		passed++
		return
	}
	failed++
	fmt.Println(append([]any{"FAILED", "ogen, " + what + ":"}, got...)...)
}

// an answers with the value if the answer is of the wanted type, and with false otherwise.
func an[Wanted any](what string, answer any, err error) (Wanted, bool) {
	wanted, is := answer.(Wanted)
	see(what, is && err == nil, fmt.Sprintf("%T", answer), err)
	return wanted, is && err == nil
}

// noBearer leaves the token away: the agent of this test asks for none.
type noBearer struct{}

func (noBearer) Bearer(context.Context, client.OperationName) (client.Bearer, error) {
	return client.Bearer{}, ogenerrors.ErrSkipClientSecurity
}

// aLife takes a lock, is refused it, renews and releases it, and is told that it is free.
func aLife(ctx context.Context, agent *client.Client) {
	params := client.AcquireParams{Key: key}
	answer, err := agent.Acquire(ctx, &client.AcquireApplicationJSON{
		TTL: client.NewOptDuration("10s"), Label: client.NewOptString("generated"),
		Renew: client.NewOptRenewer(client.RenewerAgent)}, params)
	grant, is := an[*client.AcquireCreatedApplicationJSONHeaders]("acquire: 201", answer, err)
	if !is {
		return
	}
	hold := grant.Response
	see("the hold", hold.Key == key && hold.TTLMs == 10000 && hold.ValidForMs > 0 &&
		hold.Renew == client.RenewerAgent && grant.LockToken.Value == hold.Token, hold)
	see("the fencing number has more than 32 bits", hold.FencingToken.Value > 1<<32 &&
		grant.FencingToken.Value == hold.FencingToken.Value, hold.FencingToken)

	answer, err = agent.Acquire(ctx, &client.AcquireApplicationXWwwFormUrlencoded{
		Wait: client.NewOptDuration("100ms"), Label: client.NewOptString("second")}, params)
	if held, is := an[*client.HeldProblemApplicationProblemJSONHeaders](
		"refused: 409", answer, err); is {
		see("refused: wait_timeout, and by whom", held.Response.Code == "wait_timeout" &&
			held.Response.Holder.Value == "generated", held.Response)
	}
	read, err := agent.Read(ctx, client.ReadParams{Key: key})
	if state, is := an[*client.KeyState]("read: 200", read, err); is {
		see("read: held", state.State == client.KeyStateStateHeld && len(state.Masters) == 5 &&
			state.Hold.Value.Label.Value == "generated", state)
	}
	list, err := agent.List(ctx, client.ListParams{})
	if page, is := an[*client.LockList]("list: 200", list, err); is {
		see("list: the lock", len(page.Held) == 1 && page.Held[0].Key == key, page)
	}
	token := client.NewOptToken(hold.Token)
	renewed, err := agent.Renew(ctx, &client.RenewApplicationJSON{TTL: client.NewOptDuration("20s")},
		client.RenewParams{Key: key, LockToken: token})
	if lease, is := an[*client.HoldHeaders]("renew: 200", renewed, err); is {
		see("renew: longer", lease.Response.TTLMs == 20000 &&
			lease.Response.FencingToken.Value == hold.FencingToken.Value, lease.Response)
	}
	released, err := agent.Release(ctx, &client.ReleaseReqEmptyBody{},
		client.ReleaseParams{Key: key, LockToken: token})
	an[*client.ReleaseNoContent]("release: 204", released, err)
	read, err = agent.Read(ctx, client.ReadParams{Key: key})
	if state, is := an[*client.KeyState]("read again: 200", read, err); is {
		see("read again: free", state.State == client.KeyStateStateFree, state)
	}
	released, err = agent.Release(ctx, &client.ReleaseReqEmptyBody{},
		client.ReleaseParams{Key: key, LockToken: token})
	if problem, is := an[*client.ReleaseApplicationProblemJSONNotFound](
		"released again: 404", released, err); is {
		see("released again: not_held", problem.Code == client.ProblemCodeNotHeld, problem)
	}
}

// refused makes a request that the agent answers with the default of its description.
func refused(ctx context.Context, agent *client.Client) {
	answer, err := agent.Acquire(ctx, &client.AcquireReqEmptyBody{},
		client.AcquireParams{Key: key, TTL: client.NewOptDuration("9h")})
	if problem, is := an[*client.ProblemStatusCode]("a bad ttl", answer, err); is {
		see("a bad ttl: bad_request", problem.StatusCode == 400 &&
			problem.Response.Parameter.Value == "ttl", problem)
	}
}

// pages reads the descriptions, whose answers are application/yaml, and the pages for probes.
func pages(ctx context.Context, agent *client.Client) {
	begins := func(what, with string, answer any, err error) {
		body, is := answer.(io.Reader)
		if err != nil || !is {
			see(what, false, err, answer)
			return
		}
		text, err := io.ReadAll(body)
		see(what, err == nil && strings.HasPrefix(string(text), with), err, string(text))
	}
	newer, err := agent.Openapi(ctx)
	begins("openapi.yaml", "openapi: 3.1.0\n", newer, err)
	older, err := agent.OpenapiForGenerators(ctx)
	begins("openapi-3.0.yaml", "openapi: 3.0.3\n", older, err)
	live, err := agent.Live(ctx)
	begins("livez", "ok", live, err)
	metrics, err := agent.Metrics(ctx)
	begins("metrics", "# HELP ", metrics, err)
	ready, err := agent.Ready(ctx)
	if readiness, is := an[*client.ReadyOK]("readyz: 200", ready, err); is {
		see("readyz: ready", readiness.Ready, readiness)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	agent, err := client.NewClient(os.Args[1], noBearer{})
	see("the client", err == nil, err)
	if err == nil {
		aLife(ctx, agent)
		refused(ctx, agent)
		pages(ctx, agent)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
