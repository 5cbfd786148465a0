package informanttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

func (r *run) setAnswers(of node) {
	r.answers, r.used = nil, map[string]int{}
	if of.has("http") {
		r.answers = of.at("http").list()
	}
	for _, answer := range r.answers {
		checkAnswer(answer)
	}
}

// noAnswer is why a request has no response.
type noAnswer string

func (e noAnswer) Error() string { return string(e) }

// answer answers an HTTP request: by the first answer that matches and is not used up.
func (r *run) answer(request *http.Request) (*http.Response, error) {
	url := request.URL.String()
	var body []byte
	if request.Body != nil {
		body, _ = io.ReadAll(request.Body)
	}
	headers := object{}
	for name, values := range request.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	made := object{"method": request.Method, "url": url, "headers": headers, "body": string(body)}
	r.requests = append(r.requests, made)
	for _, answer := range r.answers {
		a := answer.value.(object)
		times, isLimited := a["times"].(json.Number)
		isUsedUp := isLimited && times.String() == strconv.Itoa(r.used[answer.path])
		method, isGiven := a["method"].(string)
		if isGiven && strings.ToUpper(method) != request.Method || !fits(a["url"].(string), url) || isUsedUp {
			continue
		}
		r.used[answer.path]++
		if a["error"] != nil {
			made["error"] = a["error"]
			return nil, noAnswer("the scenario answers with " + a["error"].(string))
		}
		status := 200
		if number, isGiven := a["status"].(json.Number); isGiven {
			status, _ = strconv.Atoi(number.String())
		}
		made["status"] = json.Number(strconv.Itoa(status))
		response := &http.Response{StatusCode: status, Header: http.Header{}, Request: request}
		given, _ := a["headers"].(object)
		for name, value := range given {
			response.Header.Set(name, string(bytesOf(value)))
		}
		content := ""
		if a["body"] != nil {
			content = string(bytesOf(a["body"]))
		}
		response.Body = io.NopCloser(strings.NewReader(content))
		return response, nil
	}
	made["error"] = "connect"
	return nil, noAnswer("the scenario has no answer to " + request.Method + " " + url)
}

// bytesOf returns a text as it is, and any other value as JSON.
func bytesOf(value any) []byte {
	if text, isText := value.(string); isText {
		return []byte(text)
	}
	return compact(value)
}
