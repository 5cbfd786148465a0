/* What the conformance kit does with HTTP. */
#pragma once

#include "informant.h"

/* Sends a text to a service, and logs what came of it. */
void calls_service(const informant_event *event, const char *text);
